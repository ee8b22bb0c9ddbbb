"""Log lines, limited: a client that repeats a mistake must not fill the disk."""

from __future__ import annotations

import logging
import threading
import time

LINES = 20  # of one place in the code
SECONDS = 60.0
_LOGGERS = ("crwn.serve", "uvicorn.error", "asyncio")


class RateLimit(logging.Filter):
    """Passes `LINES` records of each message in `SECONDS`; the last one says that more of the same are left out."""

    def __init__(self, lines: int = LINES, seconds: float = SECONDS) -> None:
        super().__init__()
        self.lines = lines
        self.seconds = seconds
        self._lock = threading.Lock()
        self._passed: dict[object, tuple[float, int]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        moment, key = time.monotonic(), (record.pathname, record.lineno)
        with self._lock:
            began, count = self._passed.get(key, (moment, 0))
            if moment - began >= self.seconds:
                began, count = moment, 0
            self._passed[key] = began, count + 1
        if count == self.lines - 1:
            record.msg, record.args = f"{record.getMessage()} (more of the same are left out for a while)", None
        return count < self.lines


def limit_logs() -> None:
    """Limits the lines of the service and of the libraries that serve it."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, RateLimit) for one in logger.filters):
            logger.addFilter(RateLimit())
