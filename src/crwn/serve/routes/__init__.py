"""The endpoints, one file a group."""

from crwn.serve.routes import jobs, learn, overview, page, predict, tasks

ROUTERS = (predict.router, tasks.router, learn.router, jobs.router, overview.router, page.router)
