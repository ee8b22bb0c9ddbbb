"""Checks of files and `Learner` for `defects.py`: each returns what went wrong, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crwn import Context, Learner, NeuroModNet
from crwn.errors import CRWNError

X = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
READER = """
import os, sys
from crwn.contexts.bank import open_bank
from crwn.errors import CRWNError
with open_bank(sys.argv[1]) as bank: bank.get_many(list(bank))
os.chdir(os.path.dirname(sys.argv[1])); os.setgid(65534); os.setuid(65534)
bank, alarms = open_bank("bank.sqlite"), 0
print("open", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        try: bank.get_many(bank.names())
        except CRWNError: alarms += 1
    try: count = len(bank)
    except CRWNError: count = -1
    print(count, alarms, flush=True)
"""
SAVER = """
import sys, numpy as np
from crwn import Learner, NeuroModNet, Context
learner = Learner(NeuroModNet(8, (16,), 2, seed=0))
x = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
one = learner.learn("one", x, x[:, 0] > 0, batches=2, progress=False)
learner.bank.put_many(Context(f"t {i}", one.tensors, one.classes, one.model, info={}) for i in range(20000))
print("ready", flush=True)
learner.save(sys.argv[1])
"""


def small(folder: Path) -> tuple[Path, Context]:
    with Learner(NeuroModNet(8, (16,), 2, seed=0), bank=folder / "small.crwn") as learner:
        one = learner.learn("one", X, X[:, 0] > 0, batches=5, progress=False)
    return folder / "small.crwn", one


def named(one: Context, name: str, **info: Any) -> Context:
    return Context(name, one.tensors, one.classes, one.model, info=info)


def crwn(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crwn", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env={**os.environ, **more})


def reader_without_rights(folder: Path) -> str:
    if os.geteuid() != 0:
        return "not run: needs root"
    model, one = small(folder)
    for path in (folder, model):
        path.chmod(0o755)
    from crwn.contexts.bank import open_bank

    with open_bank(model / "bank.sqlite") as bank:
        bank.put_many(named(one, f"much {i}") for i in range(100))
    command = [sys.executable, "-c", READER, str(model / "bank.sqlite")]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.stdin.write("40\n")
    reader.stdin.flush()
    for i in range(15):
        with open_bank(model / "bank.sqlite") as bank:
            bank.put_many((named(one, f"much {j}") for j in range(100)), replace=True)
            bank.put(named(one, f"task {i}"))
    reader.stdout.readline()
    reader.stdin.write("0\n")
    lines = reader.communicate()[0].split()
    count, alarms = int(lines[0]), int(lines[1])
    return "" if (count, alarms) == (116, 0) else f"{alarms} false alarms; {count} of 116 tasks seen"


def left_over_log(folder: Path) -> str:
    model, one = small(folder)
    done = crwn("backup", str(model), str(folder / "backup"))
    if done.returncode:
        return f"`crwn backup` ended with {done.returncode}"
    with Learner.load(model) as learner:
        learner.bank.put_many(named(one, f"later {i}") for i in range(50))
        done = crwn("restore", str(folder / "backup"), str(model), "--replace")
    if done.returncode:
        return f"`crwn restore` ended with {done.returncode}: {done.stderr[-200:]}"
    with Learner.load(model) as learner:
        damaged, tasks = learner.bank.verify(), learner.tasks
    return "" if not damaged and tasks == ["one"] else f"restored {tasks[:3]}, damaged {damaged[:1]}"


def zeroed_checkpoint(folder: Path) -> str:
    import torch
    from safetensors.torch import load, save

    from crwn.training.checkpoint import Checkpoint

    tensors = {"v": torch.rand(50, requires_grad=True)}
    optimizer = torch.optim.Adam(tensors.values())
    Checkpoint(folder / "state", "a").save(tensors, optimizer, 9)
    good = (folder / "state").read_bytes()
    facts = json.loads(good[8 : 8 + int.from_bytes(good[:8], "little")])["__metadata__"]
    (folder / "state").write_bytes(save({key: torch.zeros_like(one) for key, one in load(good).items()}, facts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = Checkpoint(folder / "state", "a").restore(tensors, optimizer)
    return f"zeroed tensors were taken, as step {step}" if step else ""


def _gone(folder: Path, change: Callable[[Path], object]) -> str:
    model, one = small(folder)
    with Learner.load(model) as learner:
        change(model / "bank.sqlite")
        try:
            learner.bank.put(named(one, "new"))
        except CRWNError:
            return ""
        return "a put was acknowledged that is in no file"


def replaced_bank(folder: Path) -> str:
    return _gone(folder, lambda path: Path(shutil.copy(path, folder / "copy")).replace(path))


def deleted_bank(folder: Path) -> str:
    return _gone(folder, Path.unlink)


def killed_save(folder: Path) -> str:
    target, count = folder / "saved.crwn", 1
    with Learner(NeuroModNet(8, (16,), 2, seed=0)) as learner:
        learner.learn("one", X, X[:, 0] > 0, batches=2, progress=False)
        learner.save(target)
    process = subprocess.Popen([sys.executable, "-c", SAVER, str(target)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    while count == 1 and process.poll() is None:  # until the first of the new tasks are there
        with contextlib.suppress(sqlite3.Error):
            bank = sqlite3.connect(f"file:{target / 'bank.sqlite'}?mode=ro", uri=True)
            count = bank.execute("SELECT tasks FROM crwn_counters").fetchone()[0]
            bank.close()
        time.sleep(0.001)
    process.kill()
    process.wait()
    try:
        with Learner.load(target) as learner:
            count = len(learner.bank)
    except CRWNError:
        return ""
    return "" if count in (1, 20001) else f"the folder loads with {count} of 20,001 tasks"


def _stored(folder: Path, make: Callable[[Context], Context]) -> str:
    model, one = small(folder)
    with Learner.load(model) as learner:
        try:
            learner.add(make(one))
        except CRWNError:
            return ""
    return "it was stored"


def huge_fact(folder: Path) -> str:
    return _stored(folder, lambda one: named(one, "bad", fact=10**400))


def huge_scaling(folder: Path) -> str:
    try:
        return _stored(folder, lambda one: named(one, "bad", scaling=[[10**400] * 8, [1.0] * 8]))
    except OverflowError as error:
        return f"OverflowError: {error}"


def huge_values(folder: Path) -> str:
    def make(one: Context) -> Context:
        tensors = {key: tensor.clone() for key, tensor in one.tensors.items()}
        next(iter(tensors.values())).view(-1)[0] = 3e38
        return Context("bad", tensors, one.classes, one.model, info={})

    return _stored(folder, make)


def nul_in_a_label(folder: Path) -> str:
    learner = Learner(NeuroModNet(8, (16,), 2, seed=0))
    labels = np.array(["a\0", "b"], dtype=object)[(X[:, 0] > 0).astype(int)]
    try:
        learner.learn("one", X, labels, batches=2, progress=False)
    except CRWNError:
        return ""
    found = {str(label) for label in learner.predict(X, "one")}
    return "" if found <= {"a\0", "b"} else f"predicted as {sorted(found)}"


STORED = (
    reader_without_rights, left_over_log, zeroed_checkpoint, replaced_bank, deleted_bank, killed_save, huge_fact,
    huge_scaling, huge_values, nul_in_a_label,
)  # fmt: skip
