"""Attacks on model folders: read without rights, replaced, restored, saved halfway, damaged, old."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from attack_target import Outcome

from crwn import Context, Learner, NeuroModNet
from crwn.contexts.bank import open_bank
from crwn.errors import CRWNError
from crwn.learner.backup import back_up, restore

ROOT = Path(__file__).resolve().parents[1]
X = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
SAVER = """
import sys, numpy as np
from crwn import Learner, NeuroModNet
from crwn.contexts import Context
learner = Learner(NeuroModNet(8, (16,), 2, seed=0))
x = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
one = learner.learn("one", x, x[:, 0] > 0, batches=2, progress=False)
learner.bank.put_many(Context(f"t {i}", one.tensors, one.classes, one.model, info={}) for i in range(3000))
print("ready", flush=True)
learner.save(sys.argv[1])
"""
READER = """
import os, sys
from crwn.contexts.bank import open_bank
from crwn.errors import CRWNError
with open_bank(sys.argv[1]) as bank:
    bank.get_many(list(bank))
os.chdir(os.path.dirname(sys.argv[1])); os.setgid(65534); os.setuid(65534)
bank, alarms, reads = open_bank("bank.sqlite"), 0, 0
print("open", flush=True)
for line in sys.stdin:
    try:
        bank.get_many(bank.names()); reads += 1
    except CRWNError as error:
        alarms += 1; print("alarm", error, flush=True)
print(reads, alarms, flush=True)
"""


@contextmanager
def small_model() -> Iterator[tuple[Path, Context]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "small.crwn"
        with Learner(NeuroModNet(8, (16,), 2, seed=0), bank=folder) as learner:
            one = learner.learn("one", X, X[:, 0] > 0, batches=5, progress=False)
        yield folder, one


def _named(one: Context, name: str) -> Context:
    return Context(name, one.tensors, one.classes, one.model, info={})


def readers_without_rights(_: Path, out: Outcome, share: float) -> None:
    """A process that may not write reads a bank while another writes it: no false alarm of damage."""
    if os.geteuid() != 0:
        out.notes.append("skipped: only root can become a user without rights")
        return
    with small_model() as (folder, one):
        for path in (folder.parent, folder):
            path.chmod(0o755)
        command = [sys.executable, "-c", READER, str(folder / "bank.sqlite")]
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdout.readline()
        for i in range(max(10, int(200 * share))):
            with open_bank(folder / "bank.sqlite") as bank:
                bank.put(_named(one, f"task {i}"))
            reader.stdin.write("go\n")
            reader.stdin.flush()
        lines = reader.communicate()[0].splitlines()
        reads, alarms = map(int, lines[-1].split())
        out.tries += reads + alarms
        out.broken += alarms
        out.notes += lines[:-1][:2]


def replaced_files(_: Path, out: Outcome, share: float) -> None:
    """The file of an open bank is replaced or deleted: no put is acknowledged that is not there afterwards."""
    for i in range(max(4, int(40 * share))):
        with small_model() as (folder, one), Learner.load(folder) as learner:
            path = folder / "bank.sqlite"
            if i % 2:
                path.unlink()
            else:
                shutil.copy(path, folder / "copy")
                (folder / "copy").replace(path)
            try:
                learner.bank.put(_named(one, "new"))
                out.check(False, "a put into a file that was gone was acknowledged")
            except CRWNError as error:
                out.check("\n" not in str(error), str(error))


def restored_backups(_: Path, out: Outcome, share: float) -> None:
    """Backups taken while a thread writes, restored over a folder in use with its log: whole, and with all tasks."""
    with small_model() as (folder, one), Learner.load(folder) as learner:
        for i in range(max(3, int(12 * share))):
            learner.bank.put_many(_named(one, f"task {i} {j}") for j in range(20))
            ending = threading.Event()

            def write(number: int = i, ending: threading.Event = ending) -> None:
                at = 0
                while not ending.is_set():
                    learner.bank.put(_named(one, f"beside {number} {at}"))
                    at += 1

            thread = threading.Thread(target=write)
            thread.start()
            held = back_up(folder, folder.parent / "backup")
            ending.set()
            thread.join()
            target = folder.parent / "restored.crwn"
            with Learner.load(target) if target.exists() else Learner.load(folder) as used:
                used.bank.put(_named(one, f"log {i}"))
                restore(folder.parent / "backup", target, replace=True)
            with Learner.load(target) as again:
                damaged, count = again.bank.verify(), len(again.bank)
            out.check(not damaged and count == held["tasks"] and count > 20 * i, f"{count} tasks, {damaged[:1]}")


def killed_saves(_: Path, out: Outcome, share: float) -> None:
    """A save is killed at a random moment: the folder has all tasks, or cannot be loaded."""
    draw = random.Random(0)
    for _i in range(max(2, int(10 * share))):
        with tempfile.TemporaryDirectory() as place:
            target = Path(place) / "saved.crwn"
            process = subprocess.Popen([sys.executable, "-c", SAVER, str(target)], stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(draw.random() * 0.5)
            process.kill()
            process.wait()
            process.stdout.close()
            try:
                with Learner.load(target) as learner:
                    out.answers["whole"] += 1
                    out.check(len(learner.bank) == 3001, f"{len(learner.bank)} of 3001 tasks")
            except CRWNError as error:
                out.answers["refused"] += 1
                out.check("\n" not in str(error), str(error))


def damaged_checkpoints(_: Path, out: Outcome, share: float) -> None:
    """Zeroed and changed tensors in a checkpoint: noticed, and the task is trained from the start."""
    import warnings

    import torch
    from safetensors.torch import load, save

    from crwn.training.checkpoint import Checkpoint

    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "state"
        tensors = {"v": torch.rand(500, requires_grad=True)}
        optimizer = torch.optim.Adam(tensors.values())
        Checkpoint(path, "a").save(tensors, optimizer, 9)
        good = path.read_bytes()
        size = int.from_bytes(good[:8], "little")
        facts = json.loads(good[8 : 8 + size])["__metadata__"]
        for i in range(max(10, int(200 * share))):
            if i % 10 == 0:
                path.write_bytes(save({name: torch.zeros_like(one) for name, one in load(good).items()}, facts))
            else:
                bad = bytearray(good)
                bad[draw.randrange(8 + size, len(bad))] ^= 1 << draw.randrange(8)
                path.write_bytes(bad)
            with warnings.catch_warnings(record=True):
                warnings.simplefilter("always")
                out.check(Checkpoint(path, "a").restore(tensors, optimizer) == 0, f"damage {i} was not noticed")


def old_folders(_: Path, out: Outcome, __: float) -> None:
    """Folders that earlier versions wrote predict what they predicted."""
    for record in sorted((ROOT / "tests" / "formats").rglob("*.json")):
        folder = record.with_suffix(".crwn")
        if not folder.is_dir():
            continue
        found = json.loads(record.read_text())
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(folder, Path(place) / "m.crwn")
            with Learner.load(Path(place) / "m.crwn") as learner:
                for task in learner.tasks:
                    rows = np.array(found["rows"], dtype="float32")
                    regression = learner.context(task).info.kind == "regression"
                    now = learner.predict(rows, task) if regression else learner.predict_proba(rows, task)
                    same = np.allclose(now, found[task], atol=1e-5)
                    out.check(same, f"{record.stem}: {task} predicts something else")


def unknown_formats(_: Path, out: Outcome, __: float) -> None:
    """Banks and folders of a version that this one does not know: one line that says to update."""
    with small_model() as (folder, _one):
        with sqlite3.connect(folder / "bank.sqlite") as connection:
            connection.execute("UPDATE crwn_meta SET value = '99' WHERE key = 'format'")
        connection.close()
        _refused(folder, out)
    with small_model() as (folder, _one):
        text = (folder / "model.json").read_text().replace('"format": 1', '"format": 99')
        (folder / "model.json").write_text(text)
        _refused(folder, out)


def _refused(folder: Path, out: Outcome) -> None:
    try:
        Learner.load(folder).close()
        out.check(False, "a format that is not known was read")
    except CRWNError as error:
        out.check("update crwn" in str(error) and "\n" not in str(error), str(error))


ATTACKS = (
    readers_without_rights, replaced_files, restored_backups, killed_saves, damaged_checkpoints, old_folders,
    unknown_formats,
)  # fmt: skip
