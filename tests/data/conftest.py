"""A cache of its own for every test of data, and real files to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

MakeFolders = Callable[..., Path]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CRWN_DATA", str(folder))
    return folder


@pytest.fixture
def make_folders(tmp_path: Path) -> MakeFolders:
    """Writes class folders of PNG images under a new folder: `make_folders({"train/cat": 3})`."""

    def make(counts: dict[str, int], *, size: tuple[int, int] = (6, 5), mode: str = "RGB", under: str = "") -> Path:
        root = tmp_path / "images"
        generator = np.random.default_rng(len(counts))
        for place, count in counts.items():
            folder = root / under / place
            folder.mkdir(parents=True)
            for at in range(count):
                shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
                pixels = generator.integers(0, 256, shape, dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{at}.png")
        return root

    return make


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        if self.path.endswith("cut-short"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 10)
            return
        super().do_GET()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which a real server shows it."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()
