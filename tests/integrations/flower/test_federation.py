"""Federations of Flower: its real client, strategies and messages; rows of one owner each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crwn
from crwn.errors import CRWNError, TaskExistsError
from digit_rows import Array, Data

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
pytest.importorskip("flwr", reason="Flower is not installed: run scripts/install-flower")

from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

from crwn.integrations.flower import Agreement, Federation, client_app
from crwn.integrations.flower.rounds import NO_REPLY

NODES = (11, 12, 13, 14)
Spoil = Callable[[Message], Message]


def model(seed: int = 0) -> crwn.FlyNet:
    return crwn.FlyNet(64, 200, 10, seed=seed)


class Here(Grid):  # type: ignore[misc]
    """A grid whose clients run in this process; Flower's own needs Ray, which the example starts."""

    def __init__(self, app: ClientApp, silent: tuple[int, ...] = (), spoil: dict[int, Spoil] | None = None) -> None:
        self.app, self.silent, self.spoil = app, silent, spoil or {}
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower sets them for a server

    def get_node_ids(self) -> Iterable[int]:
        return NODES

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return [self._reply(one) for one in messages if one.metadata.dst_node_id not in self.silent]

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = Context(1, node, {"partition-id": NODES.index(node)}, RecordDict(), {})
        try:
            reply = self.app(message, context)
        except Exception as error:
            return Message(Error(code=0, reason=f"Exception occurred. Message: {error}"), reply_to=message)
        return self.spoil.get(node, lambda same: same)(reply)

    def set_run(self, run: Any) -> None:
        raise AssertionError

    run = create_message = push_messages = pull_messages = set_run


def owned(digits: Data) -> tuple[Array, Array, list[Array]]:
    """Bytes of 600 digits, and the positions of each owner's rows: unequally many, the first has three digits only."""
    x, y = (digits[0][:600] * 15).astype(np.uint8), digits[1][:600]
    few = np.flatnonzero(y < 3)[:60]
    rest = np.setdiff1d(np.arange(600), few)
    return x, y, [few, rest[:20], rest[20:200], rest[200:]]


def clients(digits: Data, *, seed: int = 0, mods: list[Any] | None = None) -> ClientApp:
    x, y, parts = owned(digits)

    def load(context: Context) -> Data:
        mine = parts[context.node_config["partition-id"]]
        return x[mine], y[mine]

    return client_app(load, lambda: model(seed), mods=mods)


def federation(learner: crwn.Learner, task: str = "t", **settings: Any) -> Federation:
    return Federation(learner, task, classes=range(10), clients=len(NODES), **settings)


def difference(one: crwn.Context, other: crwn.Context) -> float:
    return max(float((one.tensors[key] - other.tensors[key]).abs().max()) for key in one.tensors)


def replaced(name: str, change: Callable[[Array], Array]) -> Spoil:
    """A reply with one of its arrays changed."""

    def spoil(reply: Message) -> Message:
        record = reply.content.array_records["arrays"]
        record[name] = FlowerArray(change(np.array(record[name].numpy())))
        return reply

    return spoil


def first_nan(values: Array) -> Array:
    values.flat[0] = np.nan
    return values


def test_one_round_gives_the_context_of_the_union(digits: Data, capsys: pytest.CaptureFixture[str]) -> None:
    x, y, parts = owned(digits)
    learner = crwn.Learner(model())
    fed = federation(learner)
    found = fed.exact(Here(clients(digits)))
    whole = learner.learn("whole", x, y, method="exact", progress=False)
    assert difference(found, whole) < 1e-4
    assert learner.statistics("t").rows == sum(len(part) for part in parts) == 600
    (only,) = fed.rounds
    triangle = 8 * 200 * 201 // 2
    assert all(triangle < size < 1.2 * triangle for size in only.received.values())
    assert f"{max(only.received.values()):,} bytes from a client" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("gram", first_nan, "gram has NaN or infinite values"),
        ("products", lambda values: values * np.inf, "products has NaN or infinite values"),
        ("gram", lambda values: -values, "sums of squares, weights or counts are negative"),
        ("products", lambda values: values[:-1], r"products of shape \(199, 10\), expected \(200, 10\)"),
    ],
)
def test_a_client_that_sends_nonsense_changes_nothing_and_is_named(
    digits: Data, name: str, change: Callable[[Array], Array], reason: str
) -> None:
    x, y, parts = owned(digits)
    learner = crwn.Learner(model())
    fed = federation(learner)
    with np.errstate(invalid="ignore"):
        found = fed.exact(Here(clients(digits), spoil={13: replaced(name, change)}))
    others = np.concatenate([parts[0], parts[1], parts[3]])
    without = learner.learn("others", x[others], y[others], method="exact", progress=False)
    assert difference(found, without) < 1e-4
    assert list(fed.rounds[0].rejected) == [13]
    assert re.match(reason, fed.rounds[0].rejected[13])


def test_clients_that_fail_or_are_silent_are_named(digits: Data, capsys: pytest.CaptureFixture[str]) -> None:
    x, y, parts = owned(digits)

    def load(context: Context) -> Data:
        if context.node_id == 12:
            raise OSError("disk is gone")
        mine = parts[context.node_config["partition-id"]]
        return x[mine], y[mine]

    learner = crwn.Learner(model())
    fed = federation(learner)
    fed.exact(Here(client_app(load, model), silent=(14,)))
    assert fed.rounds[0].rejected == {12: "disk is gone", 14: NO_REPLY}
    assert learner.statistics("t").rows == len(parts[0]) + len(parts[2])
    printed = capsys.readouterr().out
    assert "round 1: 2 of 4 clients" in printed
    assert "round 1: client 12 was left out: disk is gone" in printed


def test_no_usable_client_is_one_error_and_stores_nothing(digits: Data) -> None:
    learner = crwn.Learner(model())
    with pytest.raises(CRWNError, match="no client sent sums that can be used: client 11: no reply"):
        federation(learner).exact(Here(clients(digits), silent=NODES))
    with pytest.raises(CRWNError, match=r"this client's model is .*, the federation's is .*\(and 3 more\)"):
        federation(learner).exact(Here(clients(digits, seed=1)))
    with pytest.raises(CRWNError, match="rows of float32 need one scaling for all clients"):
        federation(learner).exact(Here(client_app(lambda _: (digits[0][:9], digits[1][:9]), model)))
    with pytest.raises(CRWNError, match="no client sent a context that can be used"):
        federation(learner).average(Here(clients(digits), silent=NODES), rounds=1, batches=1)
    assert learner.tasks == []
    learner.learn("t", digits[0], digits[1], method="exact", progress=False)
    with pytest.raises(TaskExistsError):
        federation(learner)


def test_contexts_are_averaged_by_their_rows(digits: Data) -> None:
    x, y, parts = owned(digits)
    learner = crwn.Learner(model())
    fed = federation(learner)
    found = fed.average(Here(clients(digits)), rounds=1, batches=5)
    own = []
    for part in parts:
        alone = crwn.Learner(model())
        start = {name: value.detach() for name, value in learner.model.named_parameters()}
        info = {"scaling": (127.5, 64.0)}
        alone.add(crwn.Context("t", start, range(10), learner.fingerprint, info=info))
        own.append(alone.learn("t", x[part], y[part], resume=True, batches=5, progress=False))
    for name, value in found.tensors.items():
        mean = sum(len(part) / 600 * one.tensors[name] for part, one in zip(parts, own, strict=True))
        np.testing.assert_allclose(value, mean, atol=1e-5)
    assert max(fed.rounds[0].received.values()) < 2000
    later = federation(learner, "later").average(Here(clients(digits)), rounds=4, batches=20)
    assert later.info.batches == 80
    assert learner.score(x, y, task="later") > learner.score(x, y, task="t")


@pytest.mark.parametrize("change", [first_nan, lambda values: values[:-1]])
def test_a_wrong_context_is_left_out_of_the_average(digits: Data, change: Callable[[Array], Array]) -> None:
    learner, without = crwn.Learner(model()), crwn.Learner(model())
    fed = federation(learner)
    found = fed.average(Here(clients(digits), spoil={12: replaced("decoder.v", change)}), rounds=1, batches=3)
    other = federation(without).average(Here(clients(digits), silent=(12,)), rounds=1, batches=3)
    assert difference(found, other) < 1e-6  # they are added in another order
    assert list(fed.rounds[0].rejected) == [12]


def test_flowers_own_differential_privacy(digits: Data) -> None:
    plain, noisy, local = (crwn.Learner(model()) for _ in range(3))
    usual = federation(plain).average(Here(clients(digits)), rounds=1, batches=5)
    clipped = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4),
        noise_multiplier=0.1,
        clipping_norm=1.0,
        num_sampled_clients=4,
    )
    central = federation(noisy).average(Here(clients(digits)), rounds=1, batches=5, strategy=clipped)
    begin = dict(noisy.model.named_parameters())
    moved = sum(float((central.tensors[key] - begin[key].detach()).square().sum()) for key in begin) ** 0.5
    deviation = 0.1 * 1.0 / 4
    assert moved < 1.0 + 3 * deviation * len(central.tensors["decoder.v"]) ** 0.5
    assert difference(usual, central) > deviation
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=0.1, epsilon=1.0, delta=1e-5)
    with_mod = federation(local).average(Here(clients(digits, mods=[mod])), rounds=1, batches=5)
    assert difference(usual, with_mod) > deviation


def test_an_agreement_survives_its_record() -> None:
    agreed = Agreement("t", ("a", 2, None, (1, "x")), "f" * 16, (0.5, 2.0), 7)
    assert Agreement.read(agreed.record()) == agreed
    with pytest.raises(CRWNError, match="no agreement of crwn"):
        Agreement.read(ConfigRecord({"server-round": 1}))


def test_replies_without_rows_are_left_out(digits: Data) -> None:
    def no_rows(reply: Message) -> Message:
        parts = {"arrays": reply.content.array_records["arrays"], "metrics": MetricRecord({"num-examples": 0})}
        reply.content = RecordDict(parts)
        return reply

    def empty(reply: Message) -> Message:
        reply.content = RecordDict({"arrays": ArrayRecord({}), "metrics": MetricRecord({"num-examples": 5})})
        return reply

    fed = federation(crwn.Learner(model()))
    fed.average(Here(clients(digits), spoil={11: no_rows, 12: empty}), rounds=1, batches=2)
    assert sorted(fed.rounds[0].rejected) == [11, 12]


@pytest.mark.slow
def test_example_with_twenty_clients_in_flowers_simulation(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "federated.py"
    environment = {**os.environ, "FLWR_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=850, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    (difference,) = [float(line.split(": ")[1]) for line in lines if line.startswith("largest difference")]
    assert difference < 1e-4
    rounds = [line for line in lines if line.startswith("round ")]
    assert len(rounds) == 4
    assert all("20 of 20 clients" in line for line in rounds)
    sums, *contexts = (int(re.findall(r"([\d,]+) bytes from", line)[0].replace(",", "")) for line in rounds)
    assert 8 * 640 * 641 // 2 < sums < 1_800_000
    assert max(contexts) < 4000
    scores = {line.split(": ")[0]: float(line.split(": ")[1][:-1]) for line in lines if line.endswith("%")}
    assert scores["one round of sums"] == scores["all rows in one place"] > 88
    assert scores["averaged"] > 75
