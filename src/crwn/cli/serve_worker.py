"""The program of one worker of `crwn serve --workers N`, started by `crwn.serve.workers`, which describes its pipes."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import IO, Any


def main() -> None:
    """Serve until a signal, or until the process that started this one is gone."""
    # Without a buffer: its lock could not be taken at the end, while the thread below waits for more.
    given = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    settings = json.loads(given.readline())
    threading.Thread(target=_stop_with_parent, args=(given,), name="crwn-parent", daemon=True).start()
    # What is printed by mistake must not be taken for the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _serve(settings, answers)
    except BaseException as error:
        from crwn.cli import print_error

        print_error(error)
        sys.exit(1)


def _serve(settings: dict[str, Any], answers: IO[str]) -> None:
    import torch

    from crwn.cli.serve import open_learner
    from crwn.serve.group import Group
    from crwn.serve.limits import Limits
    from crwn.serve.running import serve

    torch.set_num_threads(settings["threads"])
    group = Group(settings["place"], tuple(settings["ports"]), settings["secret"])
    listening, private = (socket.socket(fileno=one) for one in settings["sockets"])
    bank, module = settings["bank"], settings["module"]
    with open_learner(Path(settings["model"]), bank, settings["resident"], module) as learner:

        def ready(_: str) -> None:
            print(json.dumps({"tasks": len(learner.bank)}), file=answers, flush=True)

        limits = Limits().with_connections(settings["connections"])
        how = {"group": group, "limits": limits, **settings["serve"]}
        serve(learner, listening=listening, private=private, ready=ready, **how)


def _stop_with_parent(given: IO[bytes]) -> None:
    given.read()  # returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
