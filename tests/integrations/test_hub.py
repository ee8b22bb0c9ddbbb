"""Model folders with their card go to a Hub and come back: huggingface_hub is real, the server a small stand-in.

The stand-in speaks what huggingface_hub asks for small files; large-file storage (LFS, Xet) is not part of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crwn
from crwn.errors import CRWNError, DataError
from crwn.integrations.hub import from_pretrained, model_card, push_to_hub, save_pretrained
from crwn.models.trained import set_trained

COMMIT = "1" * 40


class _Hub(BaseHTTPRequestHandler):
    files: dict[str, bytes] = {}
    made: list[dict[str, Any]] = []

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, content: bytes | dict[str, Any], status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = f"http://{self.headers['Host']}"
        if self.path == "/api/repos/create":
            self.made.append(json.loads(body))
            self._answer({"url": f"{address}/somebody/digits", "name": "somebody/digits", "id": "1"})
        elif self.path == "/api/validate-yaml":
            assert "library_name: crwn" in json.loads(body)["content"]
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            found = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None} for f in files]
            self._answer({"files": found})
        elif "/commit/" in self.path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self._answer({"commitUrl": f"{address}/somebody/digits/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self._answer({}, 404)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        resolved = re.match(r"/somebody/digits/resolve/[^/]+/(.+)", path)
        if resolved and resolved[1] in self.files:
            content = self.files[resolved[1]]
            etag = f'"{hashlib.sha1(content).hexdigest()}"'
            self._answer(content, ETag=etag, X_Repo_Commit=COMMIT)
        elif path.startswith("/api/models/somebody/digits/tree"):
            entries = [{"type": "file", "path": n, "size": len(c), "oid": "2" * 40} for n, c in self.files.items()]
            self._answer(json.dumps(entries).encode())
        elif path.startswith("/api/models/somebody/digits"):
            siblings = [{"rfilename": name} for name in self.files]
            self._answer({"id": "somebody/digits", "sha": COMMIT, "siblings": siblings})
        else:
            self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(_Hub, "files", {})
    monkeypatch.setattr(_Hub, "made", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def learner() -> crwn.Learner:
    x = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
    made = crwn.Learner(crwn.NeuroModNet(8, (32,), 3, seed=5))
    made.learn("sign", x, x[:, 0] > 0, batches=3, progress=False)
    made.learn("which | one", x, np.array(["a", "b", "c"])[x[:, :3].argmax(axis=1)], batches=3, progress=False)
    return made


def _same(one: crwn.Learner, other: crwn.Learner) -> None:
    assert one.tasks == other.tasks
    x = np.random.default_rng(1).normal(size=(20, 8)).astype("float32")
    for task in one.tasks:
        np.testing.assert_array_equal(one.predict_proba(x, task=task), other.predict_proba(x, task=task))


def test_folder_and_back(learner: crwn.Learner, tmp_path: Path) -> None:
    folder = save_pretrained(learner, tmp_path / "model", license="mit")
    assert {"README.md", "bank.sqlite", "model.json"} <= {file.name for file in folder.iterdir()}
    with from_pretrained(folder) as back:
        _same(learner, back)


def test_card_is_made_from_the_record(learner: crwn.Learner) -> None:
    card = model_card(learner, license="mit")
    assert card.startswith("---\nlibrary_name: crwn\n")
    assert "license: mit" in card
    assert learner.fingerprint in card
    assert "neuromodnet, 2 tasks" in card
    assert "| which \\| one | 3: a, b, c | 60 | 3 |" in card
    numbers = sum(parameter.numel() for parameter in learner.model.parameters())
    assert f"| parameters per task | {numbers} |" in card


def test_push_and_fetch(learner: crwn.Learner, endpoint: str) -> None:
    address = push_to_hub(learner, "somebody/digits", private=True, token="hf_test", endpoint=endpoint)
    assert address == f"{endpoint}/somebody/digits/commit/{COMMIT}"
    assert set(_Hub.files) == {"README.md", "bank.sqlite", "model.json"}
    assert "private" in json.dumps(_Hub.made[0])
    back = from_pretrained("somebody/digits", endpoint=endpoint, token="hf_test")
    _same(learner, back)
    back.forget("sign")  # in memory: what was fetched stays as it was
    _same(learner, from_pretrained("somebody/digits", endpoint=endpoint, token="hf_test"))


def test_weights_that_no_seed_makes_travel_too(endpoint: str) -> None:
    """A run in the paper's pretrained mode has weights that its first task trained."""
    x = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
    model = crwn.NeuroModNet(8, (32,), 3, seed=5)
    weights = {name: value for name, value in model.named_buffers() if value.is_floating_point()}
    set_trained(model, {name: value + 0.1 for name, value in weights.items()})
    learner = crwn.Learner(model)
    learner.learn("sign", x, x[:, 0] > 0, batches=3, progress=False)
    push_to_hub(learner, "somebody/digits", token="hf_test", endpoint=endpoint)
    assert "weights.safetensors" in _Hub.files
    _same(learner, from_pretrained("somebody/digits", endpoint=endpoint, token="hf_test"))


def test_what_is_not_there_is_said(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(CRWNError, match="cannot fetch nobody/nothing"):
        from_pretrained("nobody/nothing", endpoint=endpoint, token="hf_test")
    with pytest.raises(DataError, match="there is no folder"):
        from_pretrained(tmp_path / "missing")


def test_missing_package_is_named() -> None:
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "import crwn, crwn.integrations.hub as h\n"
        "try: h.from_pretrained('somebody/digits')\n"
        "except crwn.CRWNError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "crwn[hub]"' in done.stdout
