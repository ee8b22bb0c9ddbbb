"""Prometheus metrics of one service, in a registry of its own, so that several services can share a process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters, gauges and histograms of one service."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter(
            "crwn_requests",
            "Requests by route, method and response status.",
            ["route", "method", "status"],
            registry=own,
        )
        self.seconds = Histogram("crwn_request_seconds", "Time from request to response.", ["route"], registry=own)
        self.rows = Counter("crwn_rows", "Rows predicted.", registry=own)
        self.model_seconds = Counter("crwn_model_seconds", "Wall-clock time of the forward passes.", registry=own)
        self.model_cpu = Counter(
            "crwn_model_cpu_seconds", "Processor time of the forward passes (of the model's thread).", registry=own
        )
        self.batch_rows = Histogram("crwn_batch_rows", "Rows in one forward pass.", buckets=_BUCKETS, registry=own)
        self.batch_requests = Histogram(
            "crwn_batch_requests", "Requests that shared one forward pass.", buckets=_BUCKETS, registry=own
        )
        self.jobs = Counter("crwn_learning_jobs", "Learning jobs that ended.", ["state"], registry=own)
        self.learning = Gauge("crwn_learning", "Learning jobs that run or wait.", registry=own)
        self.tasks = Gauge("crwn_tasks", "Tasks in the bank.", registry=own)
        self.resident = Gauge("crwn_resident_tasks", "Tasks whose context is in memory.", registry=own)
        self.hits = Gauge("crwn_resident_hits", "Lookups of contexts that were in memory.", registry=own)
        self.misses = Gauge("crwn_resident_misses", "Lookups of contexts that were read from the bank.", registry=own)
        self.evictions = Gauge("crwn_resident_evictions", "Contexts evicted from memory.", registry=own)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
