"""Request bodies: size and time limits, archives, arrays that are never unpickled, labels."""

from __future__ import annotations

import io
import json
import select
import socket
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import numpy as np
import pytest

import crwn
from crwn.data.tables import labels_of, learn_encoding
from crwn.errors import DataError
from crwn.learner import Learner
from crwn.serve import body
from crwn.serve.client import RemoteError
from crwn.serve.limits import Limits
from serving import Array, npy, refusal, running, wait_until


def test_bodies_over_the_limit_stop_while_they_stream(learner: Learner, small_limits: Limits) -> None:
    with running(learner, limits=small_limits) as served:

        def endless(part: bytes = b"0" * 10_000) -> Iterator[bytes]:
            for _ in range(100):
                yield part

        for path, kind in (("/v1/predict", body.JSON), ("/v1/tasks/n/learn", body.CSV)):
            response = httpx.post(served.address + path, content=endless(), headers={"Content-Type": kind})
            assert refusal(response) == (413, "body_too_large")
        response = httpx.post(f"{served.address}/v1/predict", content=b"0" * 100_001)
        assert refusal(response) == (413, "body_too_large")
        with crwn.Client(served.address) as client:
            with pytest.raises(RemoteError) as refused:
                client.predict(np.zeros((101, 64), dtype=np.uint8), "upright")
            assert (refused.value.status, refused.value.code) == (413, "too_many_rows")


def test_archives_that_unpack_to_too_much(learner: Learner, small_limits: Limits) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, npy(np.zeros((10_000, 64), dtype=np.uint8)))
    with running(learner, limits=small_limits) as served:
        headers = {"Content-Type": body.NPZ}
        response = httpx.post(f"{served.address}/v1/tasks/n/learn", content=packed.getvalue(), headers=headers)
        assert refusal(response) == (413, "body_too_large")


def test_bodies_that_never_end(learner: Learner) -> None:
    with running(learner, limits=Limits(body_seconds=0.5)) as served:
        port = int(served.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
            assert b"408" in line.recv(4096)


def test_bodies_of_many_clients_are_held_within_a_limit(learner: Learner) -> None:
    """Each is within its own limit, but together they would fill the memory: the later ones are asked to come back."""
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"
    with running(learner, limits=Limits(held_bytes=3_000_000)) as served, ExitStack() as stack:
        address = ("127.0.0.1", int(served.address.rpartition(":")[2]))
        lines = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(6)]
        for line in lines:
            line.sendall(head + b" " * 800_000)
        bodies = served.service.bodies
        wait_until(lambda: bodies.held > 1_500_000, "the bodies that fit are held")
        refused = [line for line in lines if _answered(line)]
        assert 1 <= len(refused) <= 4
        assert all(line.recv(1000).startswith(b"HTTP/1.1 503 ") for line in refused)
        assert bodies.held <= bodies.most
        assert httpx.get(f"{served.address}/healthz").status_code == 200
        stack.close()
        wait_until(lambda: bodies.held == bodies.reading == 0, "nothing is held once all clients have left")


def _answered(line: socket.socket) -> bool:
    return bool(select.select([line], [], [], 1.0)[0])


def test_arrays_are_never_unpickled(http: httpx.Client) -> None:
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    good = npy(np.zeros((1, 64)))
    # A header that declares more than there is must not allocate that much.
    huge = good[:10] + good[10:128].replace(b"(1, 64), }", b"(9999999999999, 64), }")[:118] + good[128:]
    assert len(huge) == len(good)
    for data in (file.getvalue(), huge):
        response = http.post("/v1/predict?task=upright", content=data, headers={"Content-Type": body.NPY})
        assert refusal(response) == (422, "invalid_data")
    assert http.post("/v1/predict?task=upright", content=good, headers={"Content-Type": body.NPY}).status_code == 200


HEADERS = [
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 64), ",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 65L), }",
    b"(((((",
    b"{'descr': 'a",
    b"\\",
    b"\x00",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -64)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1e999, 64)}",
    b"{'descr': ('<f4', (1, 2, 3, 4)), 'fortran_order': False, 'shape': (1, 64)}",
    b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (64,)}",
    b"  {'descr': '<f4'\n    , 'a'\n  : 1",
    b"[" * 5000,
]


@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_arrays_that_cannot_be_read(http: httpx.Client, header: bytes) -> None:
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(256)
    response = http.post("/v1/predict?task=upright", content=data, headers={"Content-Type": body.NPY})
    assert refusal(response) == (422, "invalid_data")


def test_labels_that_are_no_text(http: httpx.Client) -> None:
    """A label beyond Unicode in an archive, and labels nested deeper than Python can follow."""
    packed = io.BytesIO()
    y = np.array([0x110000, 0x41], dtype="<u4").view("<U1")
    np.savez(packed, x=np.zeros((2, 64), dtype=np.float32), y=y)
    headers = {"Content-Type": body.NPZ}
    assert refusal(http.post("/v1/tasks/n/learn", content=packed.getvalue(), headers=headers)) == (422, "invalid_data")
    for depth in (500, 900, 1000, 5000):
        deep = "[" * depth + "1" + "]" * depth
        data = f'{{"x": [{[0.0] * 64}], "y": [{deep}]}}'.encode()
        response = http.post("/v1/tasks/n/learn", content=data, headers={"Content-Type": body.JSON})
        assert refusal(response)[0] == 422


RAW_HEADERS: list[dict[str, str]] = [
    {},
    {"X-Shape": "1,65"},
    {"X-Shape": "1,64", "X-Dtype": "float64"},
    {"X-Shape": "1,64", "X-Dtype": "object"},
    {"X-Shape": "-1,-64"},
    {"X-Shape": "1,6_4"},
    {"X-Shape": "99999999999999999999,64"},
    {"X-Shape": ""},
    {"X-Shape": "1,64", "X-Tasks-Bytes": "5"},
    {"X-Shape": "1,63", "X-Tasks-Bytes": "4"},
    {"X-Shape": "0,64", "X-Tasks-Bytes": "256"},
    {"X-Shape": "1,64", "X-Tasks-Bytes": "99999999"},
    {"X-Shape": "1," * 100 + "64"},
]


@pytest.mark.parametrize("headers", RAW_HEADERS)
def test_raw_numbers_that_do_not_match_their_headers(http: httpx.Client, headers: dict[str, str]) -> None:
    headers = {"Content-Type": body.RAW, **headers}
    assert refusal(http.post("/v1/predict?task=upright", content=bytes(256), headers=headers)) == (422, "invalid_data")


def test_raw_numbers_are_predicted_as_an_array_is(http: httpx.Client, digits: tuple[Array, Array]) -> None:
    x, names = digits[0][:6], ["upright", "mirrored"] * 3
    wanted = http.post("/v1/predict", json={"rows": x.tolist(), "task": names}).json()
    first = json.dumps(names).encode()
    headers = {"Content-Type": body.RAW, "X-Shape": "6,64", "X-Tasks-Bytes": str(len(first))}
    assert http.post("/v1/predict", content=first + x.tobytes(), headers=headers).json() == wanted
    headers = {"Content-Type": body.RAW, "X-Shape": "6,8,8", "X-Dtype": "uint8", "X-Tasks-Bytes": str(len(first))}
    small = first + x.astype(np.uint8).tobytes()
    assert http.post("/v1/predict", content=small, headers=headers).json() == wanted


def test_an_array_without_rows(http: httpx.Client) -> None:
    for empty in (np.zeros((0, 64)), np.float64(3.0)):
        for path in ("/v1/predict?task=upright", "/v1/infer-task"):
            response = http.post(path, content=npy(np.asarray(empty)), headers={"Content-Type": body.NPY})
            assert refusal(response) == (422, "invalid_data")


def test_labels_of_json_are_hashable_and_lists_become_tuples() -> None:
    assert body.labels(["a", 1, None, True, [1, ["b", None]]]) == ["a", 1, None, True, (1, ("b", None))]
    with pytest.raises(DataError, match="a label is an object"):
        body.labels([[{}]])


def test_labels_of_npz_and_csv_are_read_alike() -> None:
    packed = io.BytesIO()
    np.savez(packed, x=np.zeros((2, 1)), y=np.array([1.0, 2.0]))
    assert body.parse_npz(packed.getvalue(), 10_000)[1] == [1, 2]
    table = body.parse_csv(b"a,label\n0.5,1\n1.5,2\n")
    x, y = learn_encoding(table).apply(table), labels_of(table, "label").tolist()
    assert (x.tolist(), y) == ([[0.5], [1.5]], [1, 2])
