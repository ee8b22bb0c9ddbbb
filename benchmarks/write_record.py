"""Writes the record of a benchmark: its values, and how and on what they were measured."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crwn.experiments.environment import commit, machine, versions


def write_record(record: Mapping[str, Any], path: Path | None) -> None:
    """Print a record with its command, machine, versions and commit, and write it where a path is given."""
    import torch

    facts = {
        "command": shlex.join(["python", *sys.argv]),
        "machine": machine(torch.get_num_threads()),
        "versions": versions(),
        "commit": commit(),
    }
    text = json.dumps({**record, **facts}, indent=2)
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
