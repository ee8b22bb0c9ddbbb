"""`crwn bench`: how fast it is here, each figure a ratio of two things measured in one run."""

from __future__ import annotations

EPILOG = "Example: crwn bench training --json"


def command() -> None:
    """Measure speed here: ratios against a paper-style implementation, dense weights, loops over tasks and peers."""
