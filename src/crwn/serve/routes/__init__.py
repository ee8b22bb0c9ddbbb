"""The endpoints, one file a group."""

from crwn.serve.routes import jobs, learn, look, observe, overview, page, predict, tasks

ROUTERS = (
    predict.router,
    look.router,
    tasks.router,
    learn.router,
    observe.router,
    jobs.router,
    overview.router,
    page.router,
)
