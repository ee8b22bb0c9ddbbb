"""Limits of the service: sizes, counts and times that one client may use."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """Limits of the service; a request beyond one gets an error with a stable code before it costs memory."""

    body_bytes: int = 16 * 2**20  # of a request to predict or to infer a task
    upload_bytes: int = 256 * 2**20  # of a request to learn, as sent
    unpacked_bytes: int = 2**30  # of an .npz to learn from, unpacked
    table_bytes: int = 2**28  # of a CSV to learn from, unpacked
    table_cells: int = 20_000_000  # of a CSV or of objects to learn from
    held_bytes: int = 2**30  # of all bodies in memory, until their requests are answered
    context_bytes: int = 64 * 2**20  # of an uploaded context
    parsed_here_bytes: int = 64 * 2**10  # of JSON; more is parsed in another process
    parsed_rest_bytes: int = 4 * 2**20  # of JSON parsed there, beside the rows
    upload_rest_bytes: int = 64 * 2**20  # the same of a request to learn, which has labels
    parses: int = 16  # bodies that are parsed or wait for it
    parse_seconds: float = 60.0  # to parse one body
    rows: int = 10_000  # in one request to predict or to infer a task
    learn_rows: int = 2_000_000  # in one request to learn
    inference_rows: int = 512  # used to infer a task; further rows of the group are ignored
    inference_tasks: int = 200_000  # that are searched for a task; with more, a request names its candidates
    candidates: int = 1000  # named in one request to infer a task
    inferences: int = 32  # requests to infer a task that run or wait
    waiting_rows: int = 50_000  # queued for prediction
    page_size: int = 1000  # tasks in one page of the list
    listings: int = 64  # requests for a page of the list or for the map that run or wait
    jobs: int = 4  # running or waiting, or with an upload that is being read
    kept_jobs: int = 200  # ended ones whose state can still be read
    batches: int = 200_000  # of one learning job
    streams: int = 64  # open event streams
    atlas_tasks: int = 300  # on the map
    connections: int = 2048  # open at once
    connections_per_address: int = 1024
    head_bytes: int = 64 * 2**10  # of a request's first line and headers
    head_seconds: float = 10.0  # to receive them
    idle_seconds: float = 30.0  # of an open connection between two requests
    stalled_seconds: float = 60.0  # in which a client does not read the response
    body_seconds: float = 60.0  # to receive a body
    predict_seconds: float = 30.0  # to predict
    bank_seconds: float = 5.0  # for the bank to return what a request needs
    change_seconds: float = 40.0  # for the bank to store or delete a context, or for the map
    learn_seconds: float = 3600.0  # of one learning job
    grace_seconds: float = 10.0  # for a job to end when the service stops
    refresh_seconds: float = 0.5  # between two looks for changes that other services made in the bank

    def with_connections(self, count: int) -> Limits:
        """The same limits with so many connections at once, of which one address has what it had, or all."""
        return replace(self, connections=count, connections_per_address=min(self.connections_per_address, count))
