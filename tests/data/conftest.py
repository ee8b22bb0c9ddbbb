"""Image files to read, and a web server to download from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from image_folders import MakeFolders, write_class_folders


@pytest.fixture
def make_folders(tmp_path: Path) -> MakeFolders:
    """Writes class folders of PNG images under a new folder: `make_folders({"train/cat": 3})`."""

    def make(counts: dict[str, int], *, size: tuple[int, int] = (6, 5), mode: str = "RGB", under: str = "") -> Path:
        return write_class_folders(tmp_path / "images", counts, size=size, mode=mode, under=under)

    return make


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""

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
    """A folder and the address at which a real server serves its files."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()
