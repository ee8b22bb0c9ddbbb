"""How much one client may ask of the service: sizes, counts and times, all in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of the service; what goes beyond is refused with a stable code, before it costs memory."""

    body_bytes: int = 16 * 2**20  # rows to predict
    upload_bytes: int = 256 * 2**20  # data to learn from, as sent
    unpacked_bytes: int = 2**30  # the same, unpacked
    context_bytes: int = 64 * 2**20
    rows: int = 10_000  # in one request to predict
    learn_rows: int = 2_000_000
    inference_rows: int = 512  # the first rows of a group say enough
    waiting_rows: int = 50_000  # in the queue before the model
    page_size: int = 1000
    jobs: int = 4  # learning or waiting to
    kept_jobs: int = 200  # finished ones, for those who ask late
    batches: int = 200_000
    streams: int = 64  # open event streams
    atlas_tasks: int = 300
    body_seconds: float = 60.0
    answer_seconds: float = 30.0
    learn_seconds: float = 3600.0
    grace_seconds: float = 10.0  # given to learning that is nearly done when the service stops
    refresh_seconds: float = 1.0
