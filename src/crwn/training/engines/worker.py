"""A worker process of `ProcessEngine`: does the work it receives until the pipe is closed.

python -m crwn.training.engines.worker FILE_DESCRIPTOR THREADS
"""

from __future__ import annotations

import pickle
import sys
from multiprocessing.connection import Connection

import numpy as np
import torch

from crwn.training.allocation import keep_freed_memory
from crwn.training.engines.packing import unpack
from crwn.training.engines.progress import StepReporter


def main(descriptor: int, threads: int) -> int:
    torch.set_num_threads(threads)
    keep_freed_memory()
    with Connection(descriptor) as pipe:
        try:
            while True:
                data, large, reporting = pickle.loads(pipe.recv_bytes())
                pipe.send_bytes(_answer(pipe, data, large, reporting=reporting))
        except (EOFError, OSError):  # the caller is gone
            return 1


def _answer(pipe: Connection, data: bytes, large: list[str], *, reporting: bool) -> bytes:
    """Do the work and return the message for the caller, pickled: kind, how many steps came before, steps, result."""
    # Not `pipe.send`: torch would make it hand over tensors as open files, of which there is only a thousand.
    reporter = StepReporter(lambda sent, steps: pipe.send_bytes(pickle.dumps(("steps", sent, steps, None))))
    try:
        work = unpack(data, [np.load(path, mmap_mode="r") for path in large])
        result = work.do((reporter,) if reporting else ())
        return pickle.dumps(("done", 0, reporter.steps, result))
    except BrokenPipeError:
        raise
    except Exception as error:
        return pickle.dumps(("failed", 0, [], _sendable(error)))


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2])))
