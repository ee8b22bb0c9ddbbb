"""Processes under test: their workers are found and killed, and they receive Ctrl-C."""

from __future__ import annotations

import signal

import psutil


def kill_workers() -> list[int]:
    """Kill every worker that an engine of this process runs, and return their ids."""
    killed = []
    for process in psutil.Process().children(recursive=True):
        try:
            words = " ".join([process.name(), *process.cmdline()])
            if "_on_worker" in words or "crwn.training.engines.worker" in words:
                process.kill()
                killed.append(process.pid)
        except psutil.NoSuchProcess:  # it ended after it was listed
            continue
    return killed


def receive_ctrl_c() -> None:
    """Reset the handler of SIGINT: the background of a shell lets its children ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
