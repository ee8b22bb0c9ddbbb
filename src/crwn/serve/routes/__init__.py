"""The endpoints, one file a group."""

from crwn.serve.routes import jobs, learn, look, observe, overview, page, predict, sharing, tasks

ROUTERS = (
    predict.router,
    look.router,
    tasks.router,
    learn.router,
    observe.router,
    sharing.router,
    jobs.router,
    overview.router,
    page.router,
)
