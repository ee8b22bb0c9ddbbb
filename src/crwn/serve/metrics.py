"""What the service counts, for Prometheus; a registry of its own, so that several services fit in one process."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Receive, Scope, Send

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("crwn_requests", "Requests answered.", ["route", "method", "status"], registry=own)
        self.seconds = Histogram("crwn_request_seconds", "Time to answer.", ["route"], registry=own)
        self.rows = Counter("crwn_rows", "Rows predicted.", registry=own)
        self.model_seconds = Counter("crwn_model_seconds", "Time the model took to predict.", registry=own)
        self.model_cpu = Counter(
            "crwn_model_cpu_seconds", "The same without waiting for the processor (one thread's).", registry=own
        )
        self.batch_rows = Histogram("crwn_batch_rows", "Rows in one pass of the model.", buckets=_ROWS, registry=own)
        self.batch_requests = Histogram(
            "crwn_batch_requests", "Requests answered by one pass of the model.", buckets=_ROWS, registry=own
        )
        self.jobs = Counter("crwn_learning_jobs", "Learning jobs that ended.", ["state"], registry=own)
        self.learning = Gauge("crwn_learning", "Tasks being learned or waiting to be.", registry=own)
        self.tasks = Gauge("crwn_tasks", "Tasks in the bank.", registry=own)
        self.resident = Gauge("crwn_resident_tasks", "Tasks ready in memory.", registry=own)
        self.hits = Gauge("crwn_resident_hits", "Tasks asked for that were ready in memory.", registry=own)
        self.misses = Gauge("crwn_resident_misses", "Tasks asked for that came from the bank.", registry=own)
        self.evictions = Gauge("crwn_resident_evictions", "Tasks that made room for others.", registry=own)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class CountRequests:
    """Counts and times every request by its route, never by what the client wrote into the address."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500
        # Routing writes the route into the scope it is given, which layers below may have copied.
        found: dict[str, Any] = {}
        scope["crwn_found"] = found

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            route = found.get("route", "none")
            method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD") else "other"
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - began)
