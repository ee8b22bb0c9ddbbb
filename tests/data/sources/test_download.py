import hashlib
from pathlib import Path

import pytest

from crwn.data.progress import silent
from crwn.data.sources.download import UnreachableError, download
from crwn.errors import DataError


def test_a_file_arrives_whole_and_progress_is_told(web: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = web
    content = bytes(range(256)) * 3000
    (folder / "file").write_bytes(content)
    told: list[tuple[str, int, int | None]] = []
    md5 = hashlib.md5(content).hexdigest()
    download(address + "file", tmp_path / "got", lambda *what: told.append(what), md5=md5)
    assert (tmp_path / "got").read_bytes() == content
    assert told[-1] == ("got", len(content), len(content))


def test_another_file_than_the_published_one_is_refused(web: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = web
    (folder / "file").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"where 00 is published"):
        download(address + "file", tmp_path / "got", silent, md5="00")


def test_a_download_that_stops_early_is_refused(web: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"stopped after 10 of 1000 bytes|cannot be fetched"):
        download(web[1] + "cut-short", tmp_path / "got", silent)


def test_a_missing_file_and_a_missing_host_are_unreachable(web: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"not found"):
        download(web[1] + "nothing", tmp_path / "got", silent)
    with pytest.raises(UnreachableError, match=r"cannot be fetched"):
        download("http://127.0.0.1:9/file", tmp_path / "got", silent)
