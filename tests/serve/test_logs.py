"""Log lines of one place are limited."""

from __future__ import annotations

import logging

from crwn.serve.logs import RateLimit


def test_repeated_lines_are_left_out_and_others_pass() -> None:
    limit = RateLimit(lines=3, seconds=3600)
    record = [logging.LogRecord("a", 30, "file.py", 7, "bad request %d", (i,), None) for i in range(10)]
    passed = [one for one in record if limit.filter(one)]
    assert [one.getMessage() for one in passed[:2]] == ["bad request 0", "bad request 1"]
    assert len(passed) == 3
    assert "left out" in passed[2].getMessage()
    assert limit.filter(logging.LogRecord("a", 30, "file.py", 8, "another place", (), None))


def test_lines_pass_again_later() -> None:
    limit = RateLimit(lines=1, seconds=0.0)
    record = logging.LogRecord("a", 30, "file.py", 7, "again", (), None)
    assert [limit.filter(record) for _ in range(3)] == [True, True, True]
