"""The state of one running service: the learner, the prediction thread, learning jobs, limits and metrics."""

from __future__ import annotations

import time

from fastapi import Request

from crwn.contexts.bank import Entry
from crwn.layers import context_tensors
from crwn.learner import Learner
from crwn.serve.access import Access
from crwn.serve.atlas import AtlasMaker
from crwn.serve.bank_calls import BankCalls
from crwn.serve.batcher import Batcher
from crwn.serve.held import HeldBodies
from crwn.serve.inference import Inference
from crwn.serve.jobs import Jobs
from crwn.serve.limits import Limits
from crwn.serve.loading import Loader, Refresher
from crwn.serve.metrics import Metrics
from crwn.serve.parsing import Parser


class Service:
    """A learner and what serves it."""

    def __init__(self, learner: Learner, access: Access, limits: Limits) -> None:
        self.learner = learner
        self.access = access
        self.limits = limits
        self.input_shape = learner.input_shape
        self.metrics = Metrics()
        self.loader = Loader(learner.resident, limits)
        self.refresher = Refresher(learner, limits)
        self.batcher = Batcher(learner, limits, self.metrics, self.loader)
        self.inference = Inference(learner, limits)
        self.parser = Parser(limits, limits.parsed_rest_bytes)
        self.upload_parser = Parser(
            limits, limits.upload_bytes
        )  # uploads are large: predictions do not queue behind them
        self.bank_calls = BankCalls(limits)
        # What makes Python objects of many tasks, one at a time: several threads that do so would leave too little of
        # Python's lock to the threads that predict.
        self.listings = BankCalls(limits, threads=1, most=limits.listings)
        self.jobs = Jobs(limits, self.metrics)
        self.atlas = AtlasMaker(learner)
        self.params_per_task = sum(tensor.numel() for tensor in context_tensors(learner.model).values())
        self.bodies = HeldBodies(limits.held_bytes)
        self.streams = 0
        self.began = time.monotonic()

    @property
    def streams_full(self) -> bool:
        """Whether as many event streams are open as may be."""
        return self.streams >= self.limits.streams

    def start(self) -> None:
        self.loader.start()
        self.refresher.start()
        self.batcher.start()
        self.jobs.start()

    def begin_stop(self) -> None:
        """Cancels jobs that will not end soon, which also ends their event streams."""
        self.jobs.begin_stop()

    def stop(self) -> None:
        self.jobs.stop()
        self.batcher.stop()
        self.refresher.stop()
        self.loader.end()
        self.loader.join(1.0)  # unless it waits for a bank that hangs
        self.inference.stop()
        self.parser.stop()
        self.upload_parser.stop()
        self.bank_calls.stop()
        self.listings.stop()

    def find(self, task: str) -> Entry | None:
        """The bank's entry of this task, if it exists, without reading its context."""
        # Entries come in the order of their names: of those that start with this name, the name itself is the first.
        found = self.learner.bank.entries(task, limit=1)
        return found[0] if found and found[0].name == task else None

    def measure(self) -> bytes:
        """Updates the gauges and returns all metrics in Prometheus' text format."""
        resident = self.learner.resident
        self.metrics.tasks.set(len(self.learner.bank))
        self.metrics.resident.set(len(resident))
        self.metrics.hits.set(resident.hits)
        self.metrics.misses.set(resident.misses)
        self.metrics.evictions.set(resident.evictions)
        self.metrics.learning.set(len(self.jobs))
        return self.metrics.text()


def service_of(request: Request) -> Service:
    """The service that this request belongs to."""
    service: Service = request.app.state.service
    return service
