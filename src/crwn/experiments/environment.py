"""What a run ran on: versions, machine, memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from crwn._utils import cores


def versions() -> dict[str, str]:
    """Versions of the packages that determine results, read without importing them."""
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
        "instruction_set": instruction_set(),
        "cores": os.cpu_count() or 1,
        "threads": threads,
    }


def instruction_set() -> str:
    """The widest vector instructions of the processor: sums are rounded in another order with others."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    flags = set(next((line for line in text.splitlines() if line.startswith("flags")), "").split())
    known = (("amx_tile", "AMX"), ("avx512_bf16", "AVX-512 BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2"))
    return next((name for flag, name in known if flag in flags), platform.machine())


def commit() -> str | None:
    """The commit of the checkout this package is imported from, with a + where files differ from it; None elsewhere."""
    here = Path(__file__).parent
    try:
        found = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", str(here.parent))
    except (OSError, subprocess.SubprocessError):
        return None
    return found + ("+" if changed else "")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()


def usual_threads() -> int:
    """The value of OMP_NUM_THREADS, as usual in numerical computing, or the cores this process may use."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:
        return int(threads)
    return cores()


def peak_memory() -> int:
    """The most bytes this process ever held; 0 where the system does not report it."""
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
