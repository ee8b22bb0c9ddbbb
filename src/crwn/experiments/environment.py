"""What a run ran on: versions, machine, memory."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path


def versions() -> dict[str, str]:
    """Versions of what decides numbers, found without importing anything heavy."""
    found = {"python": platform.python_version()}
    for package in ("crwn", "torch", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def machine(threads: int) -> dict[str, str | int]:
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "threads": threads,
    }


def usual_threads() -> int:
    """What OMP_NUM_THREADS says, like everywhere in numerical computing, or the cores this process may use."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def peak_memory() -> int:
    """The most bytes this process ever held; 0 where the system does not say."""
    try:
        # `getrusage` also counts what the process that started this one held at that moment.
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass  # not Linux
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Hardware"):
                return value.strip()
    return platform.processor() or platform.machine()
