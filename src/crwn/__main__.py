"""The command `crwn`, also as `python -m crwn`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; Ctrl-C while it is imported ends it as it does later, without a traceback."""
    try:
        from crwn.cli import main as run
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
