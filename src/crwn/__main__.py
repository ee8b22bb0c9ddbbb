"""The command `crwn`, also as `python -m crwn`."""

from __future__ import annotations

import os
import sys

SPIN_COUNT = "10000"  # of OpenMP's usual 300,000


def main() -> None:
    """Run a command; Ctrl-C while it is imported ends it as it does later, without a traceback."""
    wait_for_threads_briefly()
    try:
        from crwn.cli import main as run
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        sys.exit(130)
    run()


def wait_for_threads_briefly() -> None:
    """Let threads that wait for another one sleep sooner; settings that the environment has stay as they are.

    At the end of every operation OpenMP's threads wait for each other by spinning. Where other processes use the same
    cores, a thread that spins takes the core from the one it waits for: small steps took several hundred times as long.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # read when torch is loaded


if __name__ == "__main__":
    main()
