"""Types and options of the tests of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Crwn = Callable[..., Any]  # the fixture `crwn`: words -> what was printed, or the error line
SMALL = ("--hidden", "128", "--batches", "60")
