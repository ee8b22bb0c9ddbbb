"""The command line as a whole: help, errors at the edge, interruptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from crwn import Learner, NeuroModNet
from crwn.__main__ import SPIN_COUNT, wait_for_threads_briefly
from crwn.cli import main
from processes import receive_ctrl_c

CRWN = Path(sys.executable).with_name("crwn")
COMMANDS = (
    *(
        "demo",
        "run",
        "compare",
        "search",
        "reproduce",
        "report",
        "learn",
        "predict",
        "tasks",
        "forget",
        "export",
        "import-context",
        "backup",
        "restore",
        "extend",
        "share",
        "classify",
    ),
    *("atlas", "serve", "bench", "data/list", "data/fetch", "data/import"),
)


def crwn(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(CRWN), *words], capture_output=True, text=True, timeout=300)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """`crwn WORDS` inside this process; gives the exit status."""
    monkeypatch.setattr(sys, "argv", ["crwn", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.split("/")
    assert run(monkeypatch, *words, "--help") == 0
    assert f"Example: crwn {' '.join(words)}" in " ".join(capsys.readouterr().out.split())


def test_help_needs_no_torch_and_answers_fast() -> None:
    script = (
        "import sys, time\nbegan = time.process_time()\nsys.argv = ['crwn', '--help']\nfrom crwn.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'sklearn', 'matplotlib', 'sqlalchemy', 'ray', 'fastapi', 'plotly'} & set(sys.modules)\n"
        "print(sorted(heavy), time.process_time() - began, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    heavy, _, seconds = done.stderr.strip().rpartition(" ")
    assert heavy == "[]", done.stderr
    assert float(seconds) < 1.5
    assert "import-context" in done.stdout


def test_version_and_importing_the_package_need_no_torch() -> None:
    script = "import sys, crwn; print(crwn.__version__, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["0.1.0", "False"]
    assert crwn("--version").stdout.startswith("crwn 0.1.0")


def test_an_error_is_one_line_and_status_1() -> None:
    done = crwn("tasks", "nowhere.crwn")
    assert done.returncode == 1
    assert done.stdout == ""
    assert (
        done.stderr == "error: there is no model folder nowhere.crwn: check the path, or make one with `crwn learn`\n"
    )


def test_debug_adds_the_trace() -> None:
    done = crwn("tasks", "nowhere.crwn", "--debug")
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "ModelError" in done.stderr


@pytest.mark.parametrize("words", [["fly"], ["learn"], ["tasks", "--nothing"], ["learn", "a", "b", "c", "--seed", "x"]])
def test_wrong_usage_is_status_2(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "Usage" in told.err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("odd\nthing"), "error: RuntimeError: odd thing: crwn did not expect this; --debug shows where"),
        (MemoryError(), "error: not enough memory"),
        (KeyboardInterrupt(), "error: stopped; everything finished before is saved"),
        (PermissionError(13, "Permission denied", "m.crwn"), "error: [Errno 13] Permission denied: 'm.crwn'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_happens_is_one_line(
    error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("crwn.learner.folder.read_description", fail)
    assert run(monkeypatch, "tasks", "m.crwn") == (130 if isinstance(error, KeyboardInterrupt) else 1)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(said)
    assert told.err.count("\n") == 1


def test_ctrl_c_while_learning_keeps_what_was_learned(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=random.normal(size=(256, 20)), y=random.integers(0, 2, 256))
    folder = str(tmp_path / "m.crwn")
    with np.load(tmp_path / "d.npz") as data, Learner(NeuroModNet(20, (64,), 2, seed=0), bank=folder) as learner:
        learner.learn("first", data["x"], data["y"], batches=2, progress=False)
    words = [str(CRWN), "learn", folder, "second", str(tmp_path / "d.npz"), "--batches", "1000000"]
    pipe = subprocess.PIPE
    # Learning begins soon after the bank is opened, which is all that can be seen from outside. On a busy machine the
    # first interruption can come too early, with another message.
    for seconds in (1, 5, 25):
        process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, preexec_fn=receive_ctrl_c)
        while not _has_opened_bank(process.pid) and process.poll() is None:
            time.sleep(0.1)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out) == (130, "")
        if "while learning" in err:
            break
    assert err == 'error: stopped while learning "second"; saved before: 1 task\n'
    with Learner.load(folder) as learner:
        assert learner.tasks == ["first"]


def _has_opened_bank(pid: int) -> bool:
    try:
        return any("bank.sqlite" in str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_an_interrupted_import_is_an_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error

    for stop in (interrupted, lambda: (_ for _ in ()).throw(KeyboardInterrupt)):
        monkeypatch.setattr("crwn.cli.app", stop if stop is interrupted else lambda stop=stop: next(stop()))
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 130
        assert capsys.readouterr().err == "error: stopped; everything finished before is saved\n"


def test_ctrl_c_before_the_command_is_imported_prints_no_traceback(tmp_path: Path) -> None:
    """The first library that is imported sends it, as a user may while a slow machine loads the rest."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "import runpy; runpy.run_module('crwn', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "error: stopped\n")


def test_quiet_leaves_out_progress_and_notes(tmp_path: Path) -> None:
    lines = ["id,size,label", *(f"{at},{at % 7},{'big' if at % 7 > 3 else 'small'}" for at in range(60))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    for at, words in enumerate(((), ("--quiet",))):
        done = crwn("learn", str(tmp_path / f"{at}.crwn"), "t", str(tmp_path / "t.csv"), "--batches", "5", *words)
        assert done.returncode == 0, done.stderr
        assert 'learned "t"' in done.stdout
        assert ("looks like an identifier" in done.stderr) == (not words)
    before = crwn("--quiet", "tasks", str(tmp_path / "0.crwn"))
    assert (before.returncode, before.stderr) == (0, "")
    missing = crwn("tasks", "--quiet", str(tmp_path / "none.crwn"))
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("crwn pre", ["predict"]),
        ("crwn run rotated-d", ["rotated-digits"]),
        ("crwn compare rotated-digits fly", ["flynet"]),
        ("crwn forget FOLDER no", ["north", "northwest"]),
        ("crwn predict FOLDER new.csv --task s", ["south"]),
        ("crwn forget missing.crwn no", []),
    ],
)
def test_shells_complete_names(typed: str, found: list[str], tmp_path: Path) -> None:
    with Learner(NeuroModNet(3, (8,), 2, seed=0), bank=tmp_path / "m.crwn") as learner:
        for name in ("north", "northwest", "south"):
            learner.learn(name, np.eye(3, dtype="float32"), [0, 1, 0], batches=1, progress=False)
    words = typed.replace("FOLDER", str(tmp_path / "m.crwn"))
    asked = {"_CRWN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run([str(CRWN)], capture_output=True, text=True, timeout=300, env=os.environ | asked)
    assert done.stdout.split() == found, done.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, SPIN_COUNT), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_threads_wait_briefly_unless_the_environment_says_how(
    given: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    wait_for_threads_briefly()
    found = os.environ.pop("GOMP_SPINCOUNT", None)
    assert found == expected
