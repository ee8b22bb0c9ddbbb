"""Servers, sockets, and `crwn serve` as a process: its address, its errors, and its end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import crwn
from crwn.errors import ConfigError
from crwn.learner import Learner
from crwn.serve.client import RemoteError
from crwn.serve.running import make_server, open_socket, serve
from serving import Array

COMMAND = [sys.executable, "-c", "from crwn.cli import main; main()", "serve"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "CRWN_TOKEN"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_hosts_that_others_can_reach_need_a_token(learner: Learner, host: str) -> None:
    with pytest.raises(ConfigError, match="give a token"):
        make_server(learner, host=host)
    with pytest.raises(ConfigError, match="too weak"):
        make_server(learner, host=host, token="short")
    make_server(learner, host=host, token="correct-horse-battery")


def test_a_taken_port_is_one_clear_line() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match="choose another with --port"),
    ):
        open_socket("127.0.0.1", taken.getsockname()[1])


def test_the_command_refuses_other_hosts_without_a_token(taught: Path) -> None:
    done = subprocess.run(
        [*COMMAND, str(taught), "--host", "0.0.0.0"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(r"error: host 0\.0\.0\.0 can be reached from other machines: give a token .*\n", done.stderr)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_the_start_is_obeyed(learner: Learner, sent: signal.Signals) -> None:
    addresses: list[str] = []

    def ready(address: str) -> None:
        addresses.append(address)
        os.kill(os.getpid(), sent)

    before = signal.getsignal(sent)
    serve(learner, port=0, ready=ready)
    assert len(addresses) == 1
    assert signal.getsignal(sent) is before


def test_the_command_takes_its_bank_and_token_from_elsewhere(taught: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse-battery\n")
    arguments = [str(taught), "--port", "0", "--bank", str(tmp_path / "other.crwn"), "--token-file", str(token)]
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving 0 tasks .* at (http://127\.0\.0\.1:\d+)", line)
        assert found is not None, line
        with crwn.Client(found[1]) as client, pytest.raises(RemoteError, match="Bearer TOKEN"):
            client.forget("upright")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_passwords_are_never_printed(taught: Path) -> None:
    refused = [
        ["postgresql://crwn:hunter2@127.0.0.1:9/bank"],
        [str(taught), "--bank", "postgresql://crwn:hunter2@127.0.0.1:9/bank?connect_timeout=2"],
        [str(taught), "--bank", "postgresql://crwn@127.0.0.1:9/bank?password=hunter2&connect_timeout=2"],
        [str(taught), "--bank", "mysql://crwn:hunter2@127.0.0.1:9/bank"],
    ]
    for arguments in refused:
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=ENVIRONMENT, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_in_order_while_learning(
    taught: Path, tmp_path: Path, digits: tuple[Array, Array], sent: signal.Signals
) -> None:
    x, y = digits
    folder = tmp_path / "digits.crwn"
    shutil.copytree(taught, folder)
    process = subprocess.Popen(
        [*COMMAND, str(folder), "--port", "0"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, line
        with crwn.Client(found[0]) as client:
            for event in client.learn("long", x, y, batches=200_000):
                if event["step"] > 3:
                    break
            process.send_signal(sent)
            assert process.wait(120) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    with Learner.load(folder) as learner:
        assert learner.tasks == ["mirrored", "upright"]
        assert learner.bank.verify() == []


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
import sys
from crwn.cli import main
sys.argv = ["crwn", "serve", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_where_few_files_may_be_open_there_are_fewer_connections(taught: Path, workers: str) -> None:
    command = [sys.executable, "-c", LIMITED.format(files=400), str(taught), "--port", "0", "--workers", workers]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as running:
        assert running.stderr is not None
        try:
            assert running.stderr.readline() == (
                "note: at most 272 connections at once instead of 2048: the limit of open files is 400 (`ulimit -n`)\n"
            )
            found = re.search(r"http://\S+", running.stderr.readline())
            assert found is not None
            with crwn.Client(found[0]) as client:
                assert client.tasks()
        finally:
            running.terminate()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(files=150), str(taught), "--port", "0"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "error: 64 connections need 192 open files, the limit is 150: raise `ulimit -n`\n"
