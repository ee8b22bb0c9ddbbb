"""Objects closed at the end of a `with` block, and files written whole."""

import os
import stat
from pathlib import Path

import pytest

from crwn._utils import Closing, atomic_file, write_whole


class Door(Closing):
    closed = False

    def close(self) -> None:
        self.closed = True


def test_closed_at_the_end_and_after_an_error() -> None:
    with Door() as door:
        assert not door.closed
    assert door.closed
    broken = Door()
    with pytest.raises(ValueError, match="inside"), broken:
        raise ValueError("inside")
    assert broken.closed


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 240)
    before = os.umask(0o027)
    try:
        write_whole(path, b"old")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(TypeError):
        write_whole(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def write_half() -> None:
        with atomic_file(path) as file:
            file.write(b"half of the new")
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
