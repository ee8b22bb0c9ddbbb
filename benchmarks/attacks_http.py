"""Attacks over HTTP, each in a bounded form: a function of the target, its outcome, and a share of the full count."""

from __future__ import annotations

import functools
import io
import random
import socket
import threading
import time
import zipfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress

import numpy as np
from attack_target import FEATURES, Attack, Outcome, Target, together

ROW = [0.5] * FEATURES
JSON, NPY, NPZ, RAW = "application/json", "application/x-npy", "application/x-npz", "application/octet-stream"
HALF = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/js"


def _posts(target: Target, out: Outcome, path: str, bodies: Iterable[bytes], kind: str, *allowed: int) -> None:
    with target.client() as http:
        for data in bodies:
            out.add(http.post(path, content=data, headers={"Content-Type": kind}).status_code, *allowed)


def _open(target: Target, out: Outcome, count: int, sent: bytes, seconds: float) -> None:
    """Keep connections open on which only these bytes were sent; then a new client must be answered."""
    with ExitStack() as stack, target.client() as http:
        for _ in range(count):
            line = stack.enter_context(target.connect())
            with suppress(OSError):
                line.sendall(sent)
            out.tries += 1
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            out.check(http.get("/healthz", headers={"Connection": "close"}).status_code == 200, "no answer when idle")
            time.sleep(0.2)


def idle_connections(target: Target, out: Outcome, share: float) -> None:
    _open(target, out, int(1100 * share), b"", 10 * share)


def half_sent_requests(target: Target, out: Outcome, share: float) -> None:
    _open(target, out, int(1100 * share), HALF, 10 * share)


def half_sent_bodies(target: Target, out: Outcome, share: float) -> None:
    head = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
    _open(target, out, int(300 * share), head, 5 * share)


def clients_that_never_read(target: Target, out: Outcome, share: float) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    _open(target, out, int(100 * share), request * 20, 5 * share)


def endless_heads(target: Target, out: Outcome, share: float) -> None:
    for _ in range(int(20 * share)):
        with target.connect() as line:
            try:
                line.sendall(b"GET /healthz HTTP/1.1\r\n")
                for _ in range(2000):
                    line.sendall(b"X-More: " + b"a" * 1000 + b"\r\n")
                out.add(line.recv(100)[9:12].decode() or "closed", "400", "431", "closed")
            except OSError:
                out.add("closed", "closed")


def garbage(target: Target, out: Outcome, share: float) -> None:
    draw = random.Random(0)
    for _ in range(int(300 * share)):
        with target.connect() as line, suppress(ConnectionError):
            line.sendall(draw.randbytes(draw.randint(1, 400)) + b"\r\n\r\n")
            line.shutdown(socket.SHUT_WR)
            out.add(line.recv(100)[9:12].decode("latin-1") or "closed", "400", "404", "405", "closed")


def large_empty_lists(target: Target, out: Outcome, share: float) -> None:
    data = b'{"rows": [' + b"[]," * 5_000_000 + b"[]]}"
    _posts(target, out, "/v1/predict", [data] * max(1, int(4 * share)), JSON, 413, 422)


def deep_json(target: Target, out: Outcome, share: float) -> None:
    depths = [150, 900, 1000, 1100, 5000, 200_000] * max(1, int(10 * share))
    bodies = [b'{"rows": ' + b"[" * depth + b"]" * depth + b"}" for depth in depths]
    _posts(target, out, "/v1/predict", bodies, JSON, 422)
    for i, depth in enumerate(depths):
        data = f'{{"x": [{ROW}], "y": [{"[" * depth + "1" + "]" * depth}]}}'.encode()
        _posts(target, out, f"/v1/tasks/deep {i}/learn", [data], JSON, 422)


def npy_headers(target: Target, out: Outcome, share: float) -> None:
    draw = random.Random(1)
    good = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 64), }"
    bodies = []
    for _ in range(int(400 * share)):
        header = bytearray(good)
        for _ in range(draw.randint(1, 6)):
            header[draw.randrange(len(header))] = draw.choice(b"(){}[]'\"\\L0-9,:\n\x00 \xff")
        bodies.append(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + bytes(header) + bytes(256))
    _posts(target, out, "/v1/predict?task=first", bodies, NPY, 200, 422)


def raw_headers(target: Target, out: Outcome, share: float) -> None:
    draw = random.Random(2)
    with target.client() as http:
        for _ in range(int(300 * share)):
            values = ["", "1,64", "64", "-1,64", "99999999999,64", "1,64,", "0,0", "a", "1e3,2", "1," * 100 + "64"]
            headers = {
                "Content-Type": RAW,
                "X-Shape": draw.choice(values),
                "X-Tasks-Bytes": draw.choice(["0", "9", "-1", "99999999"]),
            }
            out.add(http.post("/v1/predict?task=first", content=bytes(256), headers=headers).status_code, 200, 422)


@functools.cache
def _bomb() -> bytes:
    """An archive of some megabytes that unpacks to more than a gigabyte."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, bytes(600 * 2**20))
    return bomb.getvalue()


def archives(target: Target, out: Outcome, share: float) -> None:
    strange = io.BytesIO()
    np.savez(strange, x=np.zeros((1, FEATURES), np.float32), y=np.array([0x110000], dtype="<u4").view("<U1"))
    bodies = [_bomb(), strange.getvalue(), strange.getvalue()[:100]] * max(1, int(10 * share))
    _posts(target, out, "/v1/tasks/bomb/learn", bodies, NPZ, 413, 422)


def strange_values(target: Target, out: Outcome, share: float) -> None:
    rows = ["[1e999]", "[NaN]", "[3e38]", '["a"]', "[{}]", "[null]", f"[{10**400}]", "[true]", "[[1]]"]
    bodies = [f'{{"rows": [{row}], "task": "first"}}'.encode() for row in rows]
    bodies += [f'{{"rows": [{[value] * FEATURES}], "task": "first"}}'.encode() for value in (3e38, -3e38, 10**400)]
    bodies += [b'{"rows": [[0]], "task": "\\ud800"}', b"\xff\xfe", b"", b"null", b'{"rows": 3}']
    _posts(target, out, "/v1/predict", bodies * max(1, int(10 * share)), JSON, 404, 422)


def damaged_contexts(target: Target, out: Outcome, share: float) -> None:
    draw = random.Random(3)
    with target.client() as http:
        good = http.get("/v1/tasks/first/context").content
        for _ in range(int(200 * share)):
            bad = bytearray(good)
            for _ in range(draw.randint(1, 5)):
                bad[draw.randrange(len(bad))] = draw.randrange(256)
            data = bytes(bad[: draw.randint(0, len(bad))])
            response = http.put("/v1/tasks/uploaded/context", content=data, headers={"Content-Type": RAW})
            out.add(response.status_code, 422)
        out.add(http.get("/v1/tasks").status_code, 200)


def paths_and_names(target: Target, out: Outcome, share: float) -> None:
    names = ["..%2f..%2fetc%2fpasswd", "%00", "%ff", "a%2Flearn", "%F0%9F%92%A9", "x" * 3000, "<script>"]
    with target.client() as http:
        for _ in range(max(1, int(20 * share))):
            for name in names:
                for path in (f"/v1/tasks/{name}", f"/page/{name}", f"/v1/jobs/{name}/events"):
                    out.add(http.get(path).status_code, 400, 404, 405, 422)


def other_hosts(target: Target, out: Outcome, share: float) -> None:
    with target.client() as http:
        for _ in range(max(1, int(30 * share))):
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::bad", ""):
                out.add(http.get("/v1/tasks", headers={"Host": host}).status_code, 400, 403)
            for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                out.add(http.delete("/v1/tasks/first", headers=headers).status_code, 403)


def inference_flood(target: Target, out: Outcome, share: float) -> None:
    """Groups of rows without a task, from 32 threads, among many tasks that have no sketch."""
    data = {"rows": [ROW] * 64}

    def ask() -> None:
        with target.client() as http:
            for _ in range(max(1, int(4 * share))):
                out.add(http.post("/v1/infer-task", json=data).status_code, 200, 503)

    together(ask, 32, out)


def large_predictions(target: Target, out: Outcome, share: float) -> None:
    data = np.zeros((10_000, FEATURES), np.float32).tobytes()
    headers = {"Content-Type": RAW, "X-Shape": f"10000,{FEATURES}"}

    def ask() -> None:
        with target.client() as http:
            for _ in range(max(1, int(5 * share))):
                address = "/v1/predict?task=first&probabilities=true"
                out.add(http.post(address, content=data, headers=headers).status_code, 200, 503)

    together(ask, 8, out)


def burst_of_streams(target: Target, out: Outcome, share: float) -> None:
    x, y = [ROW, [0.1] * FEATURES] * 50, [0, 1] * 50
    with target.client() as http, ExitStack() as stack:
        job = http.post("/v1/tasks/long/learn", json={"x": x, "y": y, "batches": 200_000, "replace": True}).json()
        request = f"GET {job['events']} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        lines = [stack.enter_context(target.connect()) for _ in range(max(70, int(300 * share)))]
        for line in lines:
            line.sendall(request)
        answers = [line.recv(100)[9:12].decode() for line in lines]
        for answer in answers:
            out.add(answer, "200", "429")
        out.check(answers.count("200") <= 64, f"{answers.count('200')} streams of at most 64 were taken")
        http.delete(f"/v1/jobs/{job['id']}")


def mixed_answers(target: Target, out: Outcome, share: float) -> None:
    """Many clients at once, each with rows whose labels are known: nobody gets another's answer."""
    rows = np.random.default_rng(0).random((40, FEATURES)).round(3)
    tasks = ("first", "second")
    with target.client() as http:

        def labels(task: str, row: list[float]) -> object:
            return http.post("/v1/predict", json={"rows": [row], "task": task}).json()["labels"]

        wanted = {(i, task): labels(task, row.tolist()) for i, row in enumerate(rows) for task in tasks}

    def ask() -> None:
        draw = random.Random(threading.get_ident())
        with target.client() as one:
            for _ in range(int(200 * share)):
                i, task = draw.randrange(len(rows)), draw.choice(tasks)
                found = one.post("/v1/predict", json={"rows": [rows[i].tolist()], "task": task})
                out.check(found.json().get("labels") == wanted[i, task], f"another answer for row {i} of {task}")

    together(ask, 16, out)


ATTACKS: tuple[Attack, ...] = (
    idle_connections, half_sent_requests, half_sent_bodies, clients_that_never_read, endless_heads, garbage,
    large_empty_lists, deep_json, npy_headers, raw_headers, archives, strange_values, damaged_contexts, paths_and_names,
    other_hosts, inference_flood, large_predictions, burst_of_streams, mixed_answers,
)  # fmt: skip
