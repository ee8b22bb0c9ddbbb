"""Limits of the service: sizes, counts and times that one client may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of the service; a request beyond one gets an error with a stable code before it costs memory."""

    body_bytes: int = 16 * 2**20  # of a request to predict or to infer a task
    upload_bytes: int = 256 * 2**20  # of a request to learn, as sent
    unpacked_bytes: int = 2**30  # of an .npz to learn from, unpacked
    context_bytes: int = 64 * 2**20  # of an uploaded context
    rows: int = 10_000  # in one request to predict or to infer a task
    learn_rows: int = 2_000_000  # in one request to learn
    inference_rows: int = 512  # used to infer a task; further rows of the group are ignored
    waiting_rows: int = 50_000  # queued for prediction
    page_size: int = 1000  # tasks in one page of the list
    jobs: int = 4  # running or waiting
    kept_jobs: int = 200  # ended ones whose state can still be read
    batches: int = 200_000  # of one learning job
    streams: int = 64  # open event streams
    atlas_tasks: int = 300  # on the map
    body_seconds: float = 60.0  # to receive a body
    predict_seconds: float = 30.0  # to predict
    learn_seconds: float = 3600.0  # of one learning job
    grace_seconds: float = 10.0  # for a job to end when the service stops
    refresh_seconds: float = 1.0  # between two looks for changes that other services made in the bank
