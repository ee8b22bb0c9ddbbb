"""Attacks over HTTP with values that must not be stored, and floods of requests that are allowed one by one."""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import threading
from contextlib import suppress

import httpx
import numpy as np
from attack_target import FEATURES, Attack, Outcome, Target, together

from crwn.contexts import Context

ROW = [0.5] * FEATURES
CONTEXT = {"Content-Type": "application/vnd.safetensors"}
STRANGE = ["\\ud800", "a\\u0000", "[" * 150 + "1" + "]" * 150]  # of labels, as JSON text


def poisoned_labels(target: Target, out: Outcome, share: float) -> None:
    """Labels that not every reader takes, to learn and to observe; the list of tasks stays whole."""
    labels = [
        *(f'"{one}"' if one[0] != "[" else one for one in STRANGE),
        str(10**400),
        "NaN",
        "{}",
        '"' + "x" * 20_000 + '"',
    ]
    with target.client() as http:
        for i in range(max(1, int(12 * share))):
            for j, label in enumerate(labels):
                data = f'{{"x": [{ROW}, {ROW}], "y": [{label}, 1]}}'.encode()
                path = f"/v1/tasks/poison {i} {j}/learn"
                out.add(http.post(path, content=data, headers={"Content-Type": "application/json"}).status_code, 422)
                data = f'{{"x": [{ROW}], "y": [{label}], "classes": [{label}, 1]}}'.encode()
                path = f"/v1/tasks/poison {i} {j}/observe"
                out.add(http.post(path, content=data, headers={"Content-Type": "application/json"}).status_code, 422)
        _still_whole(http, out)


def poisoned_uploads(target: Target, out: Outcome, share: float) -> None:
    """Contexts whose header or values were changed, with and without a matching checksum; nothing of it is stored."""
    with target.client() as http:
        good = http.get("/v1/tasks/first/context").content
        one = Context.from_bytes(good)
        key = next(iter(one.tensors))
        for value in (3e38, float("nan"), float("inf"), -1e30):
            for _ in range(max(1, int(10 * share))):
                bad = bytearray(good)
                at = len(bad) - one.tensors[key].numel() * 4
                bad[at : at + 4] = np.float32(value).tobytes()
                out.add(http.put("/v1/tasks/bad/context", content=bytes(bad), headers=CONTEXT).status_code, 422)
        for text in (str(10**400), '"\\ud800"', "[" * 150 + "]" * 150):
            for _ in range(max(1, int(10 * share))):
                size = int.from_bytes(good[:8], "little")
                head = good[8 : 8 + size].replace(b'"format', f'"more": {text}, "format'.encode(), 1)
                data = len(head).to_bytes(8, "little") + head + good[8 + size :]
                out.add(http.put("/v1/tasks/bad/context", content=data, headers=CONTEXT).status_code, 422)
        _still_whole(http, out)


def scripts_in_names(target: Target, out: Outcome, share: float) -> None:
    """Tasks and labels with markup: the page has none of it, and what has it is no HTML."""
    names = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
        "</script><script>",
    ]
    with target.client() as http:
        one = Context.from_bytes(http.get("/v1/tasks/first/context").content)
        for i in range(max(1, int(5 * share))):
            for name in names:
                wanted = f"{name} {i}"
                classes = (name, *one.classes[1:])
                data = dataclasses.replace(one, name=wanted, classes=classes).to_bytes()
                path = httpx.URL(target.address).copy_with(raw_path=b"/v1/tasks/" + _quoted(wanted) + b"/context")
                out.add(http.put(path, content=data, headers=CONTEXT).status_code, 200, 201)
                for address in ("/", "/v1/tasks?prefix=%3C", "/v1/atlas"):
                    response = http.get(address)
                    kind, body = response.headers["content-type"], response.text
                    out.check(not (kind.startswith("text/html") and name in body), f"{name} in {address}")
                    out.check(response.headers.get("x-content-type-options") == "nosniff", f"{address}: may be sniffed")
                path = httpx.URL(target.address).copy_with(raw_path=b"/v1/tasks/" + _quoted(wanted))
                out.add(http.delete(path).status_code, 204)


def pickles(target: Target, out: Outcome, share: float) -> None:
    """Arrays of Python objects, which would run code when they are read."""

    class Shell:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("unpickled",)

    array = np.empty((1, FEATURES), dtype=object)
    array[:] = Shell()
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, array, allow_pickle=True)
    np.savez(npz, x=array, y=array)
    with target.client() as http:
        for _ in range(max(1, int(20 * share))):
            for path, data, kind in (
                ("/v1/predict?task=first", npy.getvalue(), "application/x-npy"),
                ("/v1/predict?task=first", pickle.dumps(array), "application/x-npy"),
                ("/v1/tasks/pickled/learn", npz.getvalue(), "application/x-npz"),
            ):
                out.add(http.post(path, content=data, headers={"Content-Type": kind}).status_code, 422)
    out.check("unpickled" not in target.log.read_text(), "code of a request was run")


def smuggled_requests(target: Target, out: Outcome, share: float) -> None:
    """Two lengths for one body: refused, or one answer and no second request inside the body."""
    inner = b"DELETE /v1/tasks/first HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    heads = [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Content-Length: 4\r\nContent-Length: 60",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Content-Length: -5",
        b"Content-Length: +5",
        b"Transfer-Encoding: xchunked",
        b"Content-Length : 5",
    ]
    for _ in range(max(1, int(20 * share))):
        for head in heads:
            with target.connect(10) as line, suppress(OSError):
                line.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n\r\n0\r\n\r\n" + inner)
                line.shutdown(1)
                out.add(line.recv(100)[9:12].decode("latin-1") or "closed")
    with target.client() as http:
        out.add(http.get("/v1/tasks/first").status_code, 200)


def clients_that_leave(target: Target, out: Outcome, share: float) -> None:
    """Connections that are closed inside the body, or before the answer."""
    body = json.dumps({"rows": [ROW] * 50, "task": "first"}).encode()
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for i in range(int(600 * share)):
        with target.connect() as line, suppress(OSError):
            line.sendall(head + (body if i % 2 else body[: i % len(body)]))
        out.tries += 1
    with target.client() as http:
        out.add(http.get("/healthz").status_code, 200)


def learning_flood(target: Target, out: Outcome, share: float) -> None:
    """Many tasks to learn at once: some are taken, the others are told to wait, and all are cancelled."""
    x, y = [ROW, [0.1] * FEATURES] * 200, [0, 1] * 200
    jobs: list[str] = []
    numbers = iter(range(10_000))
    lock = threading.Lock()

    def ask() -> None:
        with target.client() as http:
            for _ in range(max(1, int(10 * share))):
                with lock:
                    name = f"flood {next(numbers)}"
                response = http.post(f"/v1/tasks/{name}/learn", json={"x": x, "y": y, "batches": 100_000})
                out.add(response.status_code, 202, 429)
                if response.status_code == 202:
                    jobs.append(response.json()["id"])

    together(ask, 8, out)
    with target.client() as http:
        for job in jobs:
            out.add(http.delete(f"/v1/jobs/{job}").status_code, 204)
        out.check(1 <= len(jobs) <= 200, f"{len(jobs)} jobs were taken")


def candidate_flood(target: Target, out: Outcome, share: float) -> None:
    """Groups of many rows with as many candidates as are allowed."""
    data = {"rows": [ROW] * max(64, int(512 * share)), "candidates": [f"many {i:06}" for i in range(1000)]}

    def ask() -> None:
        with target.client() as http:
            for _ in range(max(1, int(2 * share))):
                out.add(http.post("/v1/infer-task", json=data).status_code, 200, 503)

    together(ask, 6, out)


def listing_flood(target: Target, out: Outcome, share: float) -> None:
    """Everything that lists, counts or draws, from many clients."""

    def ask() -> None:
        with target.client() as http:
            for _ in range(max(1, int(10 * share))):
                for path in ("/v1/tasks?limit=1000", "/v1/atlas", "/metrics", "/v1/model", "/openapi.json", "/"):
                    out.add(http.get(path).status_code, 200, 503)

    together(ask, 8, out)


def _still_whole(http: httpx.Client, out: Outcome) -> None:
    for path in ("/v1/tasks?limit=100", "/v1/atlas", "/", "/metrics"):
        out.add(http.get(path).status_code, 200)
    listed = [one["name"] for one in http.get("/v1/tasks?limit=1000").json()["tasks"]]
    out.check("first" in listed, "the first task is not listed")
    out.check(not [name for name in listed if name.startswith(("poison", "bad"))], "something poisoned was stored")


def _quoted(name: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in name.encode()).encode()


ATTACKS: tuple[Attack, ...] = (
    poisoned_labels, poisoned_uploads, scripts_in_names, pickles, smuggled_requests, clients_that_leave,
    learning_flood, candidate_flood, listing_flood,
)  # fmt: skip
