"""Services on one PostgreSQL bank: they see each other's tasks, and go on predicting while the server hangs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np

import crwn
from crwn.learner import Learner
from crwn.serve.limits import Limits
from postgres_server import PostgresServer
from serving import Array, refusal, running, wait_until

COMMAND = [sys.executable, "-m", "crwn", "serve"]


@contextmanager
def command(folder: Path, bank: str, log: Path) -> Iterator[str]:
    """`crwn serve FOLDER --bank ...` as a process; its address."""
    kept = {key: value for key, value in os.environ.items() if key not in ("CRWN_TOKEN", "CRWN_BANK")}
    with log.open("wb") as out:
        process = subprocess.Popen([*COMMAND, str(folder), "--port", "0", "--bank", bank], stderr=out, env=kept)
    try:
        wait_until(lambda: "http://" in log.read_text() or process.poll() is not None, "the service has started", 120)
        yield re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())[0]
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_two_commands_on_one_bank_see_each_others_tasks(
    taught: Path, postgres: PostgresServer, digits: tuple[Array, Array], tmp_path: Path
) -> None:
    bank, x = postgres.new_database(), digits[0][:64]
    with ExitStack() as stack, Learner.load(taught) as source:
        addresses = [stack.enter_context(command(taught, bank, tmp_path / name)) for name in ("one", "two")]
        one, two = (stack.enter_context(crwn.Client(address)) for address in addresses)
        assert list(one.tasks()) == []
        for name in ("upright", "mirrored"):
            one.put_context(source.context(name))
        assert two.predict(x, "upright").labels == source.predict(x, "upright").tolist()
        assert two.infer_task(x).ranking[0]["task"] == "upright"
        two.forget("upright")
        wait_until(lambda: "upright" not in [score["task"] for score in one.infer_task(x).ranking], "it is forgotten")
        wait_until(lambda: not _predicts(addresses[0], "upright", x), "the other service drops it")


def _predicts(address: str, task: str, x: Array) -> bool:
    return httpx.post(f"{address}/v1/predict", json={"rows": x.tolist(), "task": task}).status_code == 200


def test_a_server_that_hangs_stops_nothing_that_is_in_memory(
    learner: Learner, postgres: PostgresServer, digits: tuple[Array, Array]
) -> None:
    x = digits[0][:4]
    limits = Limits(refresh_seconds=0.05, bank_seconds=1.0)
    with Learner(learner.model, bank=postgres.new_database()) as second, running(second, limits=limits) as served:
        second.bank.put_many([learner.context(name) for name in learner.tasks])
        second.refresh()  # otherwise these changes are noticed later, which drops the tasks from memory
        with crwn.Client(served.address, retries=0) as client:
            wanted = client.predict(x, "upright").labels
            assert wanted == learner.predict(x, "upright").tolist()
            postgres.pause()
            try:
                time.sleep(0.5)  # long enough for the thread that looks for changes to hang
                for _ in range(20):
                    assert client.predict(x, "upright").labels == wanted
                cold = httpx.post(f"{served.address}/v1/predict", json={"rows": x.tolist(), "task": "mirrored"})
                assert refusal(cold) == (503, "bank_unavailable")
                inferring = threading.Thread(
                    target=lambda: httpx.post(f"{served.address}/v1/infer-task", json={"rows": x.tolist()}, timeout=90)
                )
                inferring.start()
                assert refusal(httpx.get(f"{served.address}/healthz")) == (503, "bank_unavailable")
                assert client.predict(x, "upright").labels == wanted
            finally:
                postgres.resume()
            inferring.join(90)
            wait_until(lambda: httpx.get(f"{served.address}/healthz").status_code == 200, "the bank is used again")
            np.testing.assert_array_equal(client.predict(x, "mirrored").labels, learner.predict(x, "mirrored"))
