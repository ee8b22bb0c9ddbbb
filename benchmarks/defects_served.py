"""Checks of a running service for `defects.py`: each returns what went wrong, or nothing."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from contextlib import ExitStack

import httpx
import numpy as np
from attack_target import FEATURES, Probe, Target

ROW = [0.5] * FEATURES
JSON = {"Content-Type": "application/json"}


def _slowest(target: Target, work: threading.Thread, path: str = "") -> float:
    """The longest wait for a named prediction, or for this path, while the thread works."""
    longest = 0.0
    with httpx.Client(base_url=target.address, timeout=100) as http:
        http.post("/v1/predict", json={"rows": [ROW], "task": "first"}).raise_for_status()
        work.start()
        while work.is_alive():
            began = time.monotonic()
            if path:
                http.get(path)
            else:
                http.post("/v1/predict", json={"rows": [ROW], "task": "first"})
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.02)
    return longest


def inference_holds_the_model(target: Target) -> str:
    def infer() -> None:
        httpx.post(f"{target.address}/v1/infer-task", json={"rows": [ROW] * 64}, timeout=100)

    waited = _slowest(target, threading.Thread(target=infer))
    return f"a named prediction waited {waited:.1f} s" if waited >= 1 else ""


def large_body_on_the_loop(target: Target) -> str:
    data = b'{"rows": [' + b"[]," * 5_000_000 + b"[]]}"

    def send() -> None:
        httpx.post(f"{target.address}/v1/predict", content=data, headers=JSON, timeout=100)

    waited = _slowest(target, threading.Thread(target=send), "/healthz")
    return f"the health check took {waited:.1f} s" if waited >= 1 else ""


def half_sent_requests(target: Target) -> str:
    with target.connect(14) as line:
        line.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Ty")
        try:
            while line.recv(1000):
                pass
        except TimeoutError:
            return "a half-sent head was kept for over 14 s"
    return ""


def lists_hold_the_model(target: Target) -> str:
    """Forty clients that list a thousand tasks again and again for 10 s, beside named predictions."""
    asked = {"rows": [ROW], "task": "first"}
    wanted = httpx.post(f"{target.address}/v1/predict", json=asked, timeout=60).json()["labels"][0]
    until = time.monotonic() + 10

    def ask() -> None:
        with target.client() as http:
            while time.monotonic() < until:
                http.get("/v1/tasks?limit=1000")

    threads = [threading.Thread(target=ask) for _ in range(40)]
    with Probe(target.port, "first", ROW, wanted) as probe:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    waited = probe.record()["p50_ms"]
    return f"half of the named predictions waited over {waited:.0f} ms" if waited >= 200 else ""


def npy_header(target: Target) -> str:
    found = set()
    with target.client() as http:
        for change in (
            b"'shape': (1, 64), }",
            b"'shape': ((((1",
            b"'shape': 1L, \\",
            b"'''",
            b"'shape': (1,\n  64), }\n x",
        ):
            header = b"{'descr': '<f4', 'fortran_order': False, " + change
            data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(256)
            kind = {"Content-Type": "application/x-npy"}
            found.add(http.post("/v1/predict?task=first", content=data, headers=kind).status_code)
    return "" if found <= {200, 422} else f"answers {sorted(found)}"


def npz_label(target: Target) -> str:
    file = io.BytesIO()
    np.savez(file, x=np.zeros((1, FEATURES), np.float32), y=np.array([0x110000], dtype="<u4").view("<U1"))
    kind = {"Content-Type": "application/x-npz"}
    status = httpx.post(f"{target.address}/v1/tasks/bad/learn", content=file.getvalue(), headers=kind).status_code
    return "" if status == 422 else f"answered {status}"


def _with_field(context: bytes, field: str, text: str) -> bytes:
    """A context's bytes with this JSON text as one field of its record, and a checksum that fits."""
    size = int.from_bytes(context[:8], "little")
    header = json.loads(context[8 : 8 + size])
    record = json.loads(header["__metadata__"]["crwn"])
    changed = json.dumps(record | {"checksum": "0" * 64, field: "here"}).replace('"here"', text)
    head = json.dumps(header | {"__metadata__": {"crwn": changed}}).encode()
    data = len(head).to_bytes(8, "little") + head + context[8 + size :]
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


def deep_json(target: Target) -> str:
    """JSON nested up to 10^5 deep in rows, labels, names and contexts; then the tasks are listed."""
    upload, kind = "/v1/tasks/deep/context?replace=true", {"Content-Type": "application/vnd.safetensors"}
    found = set()
    with target.client() as http:
        good = http.get("/v1/tasks/first/context").content
        assert http.put(upload, content=_with_field(good, "info", '{"a": 1}'), headers=kind).status_code == 201
        for depth in (900, 1100, 5000, 100_000):
            lists, objects = "[" * depth + "]" * depth, '{"a": ' * depth + "1" + "}" * depth
            for path, text in (
                ("/v1/predict", f'{{"rows": {lists}}}'),
                ("/v1/predict", f'{{"rows": [{ROW}], "task": {objects}}}'),
                ("/v1/infer-task", f'{{"rows": [{objects}]}}'),
                ("/v1/tasks/new/learn", f'{{"x": {lists}, "y": [0, 1]}}'),
                ("/v1/tasks/new/learn", f'{{"x": [{ROW}, {ROW}], "y": [{lists}, 1]}}'),
            ):
                found.add(http.post(path, content=text.encode(), headers=JSON).status_code)
            for field, text in (("info", objects), ("classes", "[" + '{"tuple": [' * depth + "1" + "]}" * depth + "]")):
                found.add(http.put(upload, content=_with_field(good, field, text), headers=kind).status_code)
        listed = http.get("/v1/tasks").status_code
        http.delete("/v1/tasks/deep")
    if found == {422} and listed == 200:
        return ""
    return f"answers {sorted(found)}; the list of tasks is then answered with {listed}"


def burst_of_streams(target: Target) -> str:
    x, y = [ROW, [0.1] * FEATURES] * 50, [0, 1] * 50
    with target.client() as http, ExitStack() as stack:
        job = http.post("/v1/tasks/long/learn", json={"x": x, "y": y, "batches": 200_000}).json()
        lines = [stack.enter_context(target.connect()) for _ in range(300)]
        for line in lines:
            line.sendall(f"GET {job['events']} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        taken = [line.recv(100)[9:12] for line in lines].count(b"200")
        http.delete(f"/v1/jobs/{job['id']}")
    return f"{taken} streams were taken" if taken > 64 else ""


SERVED = (
    npy_header, npz_label, deep_json, burst_of_streams, half_sent_requests, lists_hold_the_model,
    large_body_on_the_loop, inference_holds_the_model,
)  # fmt: skip  # those that may stop a service for long come last
