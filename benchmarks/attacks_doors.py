"""Attacks on what a process takes from outside: forks, files that unpack to too much, impossible models, tokens."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import signal
import tempfile
import threading
import zipfile
from pathlib import Path

import numpy as np
from attack_target import Outcome, serving
from attacks_files import X, small_model
from attacks_storage import crwn_each

from crwn import Learner, NeuroModNet
from crwn.errors import CRWNError


def forks(_: Path, out: Outcome, share: float) -> None:
    """Forks while threads predict: the child predicts the same."""
    learner = Learner(NeuroModNet(8, (64, 64), 2, seed=0))
    learner.learn("one", X, X[:, 0] > 0, batches=5, progress=False)
    wanted, ending = learner.predict(X, "one"), threading.Event()

    def go() -> None:
        while not ending.is_set():
            learner.predict(X, "one")

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _i in range(max(5, int(30 * share))):
        child = os.fork()
        if not child:
            signal.alarm(20)
            code = 1
            try:
                code = 0 if np.array_equal(learner.predict(X, "one"), wanted) else 1
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.answers[f"exit {status}"] += 1
        out.check(status == 0, f"the child ended with {status}")
    ending.set()
    for thread in threads:
        thread.join()
    try:
        pickle.dumps(learner)
        out.check(False, "a learner was pickled")
    except CRWNError as error:
        out.check("learner.save" in str(error), str(error))


def data_bombs(model: Path, out: Outcome, share: float) -> None:
    """Files to learn from that unpack to far more than there is: one line, little memory."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        head = str({"descr": "<f4", "fortran_order": False, "shape": (2**40, 2)}).encode()
        array = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
        (folder / "x.npy").write_bytes(array)
        with zipfile.ZipFile(folder / "declared.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("x.npy", "y.npy"):
                archive.writestr(name, array)
        with zipfile.ZipFile(folder / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("cat/1.png", "dog/2.png"):
                archive.writestr(name, bytes(2**29))
        with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb") as file:
            file.write(b"\x00\x00\x08\x03" + b"\xff" * 12)
        files = sorted(one.name for one in folder.iterdir())
        files *= max(1, int(3 * share))
        done = crwn_each(["learn", str(model), "bomb", str(folder / name)] for name in files)
        for name, one in zip(files, done, strict=True):
            held = one.returncode == 1 and "Traceback" not in one.stderr and one.stderr.startswith("error:")
            out.check(held, f"{name}: {one.returncode} {one.stderr[-200:]}")


def impossible_models(_: Path, out: Outcome, share: float) -> None:
    """Descriptions of networks that fit into no memory: one line before any weight is made."""
    changes = [{"hidden": [10**9] * 2}, {"in_features": 10**15}, {"classes": 10**40}, {"hidden": [50_000] * 1000}]
    with small_model() as (folder, _one):
        good = json.loads((folder / "model.json").read_text())
        for _time in range(max(1, int(10 * share))):
            for change in changes:
                (folder / "model.json").write_text(json.dumps(good | {"config": good["config"] | change}))
                try:
                    Learner.load(folder).close()
                    out.check(False, f"{change} was taken")
                except CRWNError as error:
                    out.check("\n" not in str(error), str(error))


def tokens(model: Path, out: Outcome, share: float) -> None:
    """A service with a token: wrong, cut, padded and misplaced tokens never write; other host names need it to read."""
    with tempfile.TemporaryDirectory() as place:
        secret = "correct-horse-battery"
        (Path(place) / "token").write_text(secret + "\n")
        commands = []
        for i, bad in enumerate(("", "   ", "short", " " * 20)):
            (Path(place) / f"bad {i}").write_text(bad + "\n")
            commands.append(["serve", str(model), "--port", "0", "--token-file", str(Path(place) / f"bad {i}")])
        for done in crwn_each(commands):
            out.check(done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr[-100:])
        with serving(model, Path(place) / "log", "--token-file", str(Path(place) / "token")) as target:
            with target.client() as http:
                given = [
                    "",
                    secret,
                    f"Bearer {secret[:-1]}",
                    f"Bearer {secret}x",
                    f"Basic {secret}",
                    f"Bearer {secret} {secret}",
                    "Bearer",
                ]
                for _ in range(max(1, int(30 * share))):
                    for header in given:
                        response = http.delete("/v1/tasks/first", headers={"Authorization": header})
                        out.add(response.status_code, 401)
                    out.add(http.get("/v1/tasks", headers={"Host": "evil.example"}).status_code, 403)
                    headers = {"Host": "evil.example", "Authorization": f"Bearer {secret}"}
                    out.add(http.get("/v1/model", headers=headers).status_code, 200)
            out.check(secret not in " ".join(_arguments(target.process.pid)), "the token is visible in ps")
            out.check(secret not in target.log.read_text(), "the token is in the log")


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


ATTACKS = (forks, data_bombs, impossible_models, tokens)
