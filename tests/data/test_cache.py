import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from crwn.data.cache import cache_folder, cached_names, read_set, temporary_folder, write_set
from crwn.data.image_set import Arrays
from crwn.errors import DataError


def some_arrays(fill: int = 7) -> Arrays:
    x = np.full((4, 2, 3), fill, dtype=np.uint8)
    y = np.array([0, 1, 0, 1])
    return Arrays(x, y, x[:2], y[:2], ("left", 5), "a test", (0.5,), (0.25,))


def test_the_cache_is_where_people_expect_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CRWN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "crwn"
    monkeypatch.setenv("CRWN_DATA", str(tmp_path / "chosen"))
    assert cache_folder() == tmp_path / "chosen"


def test_what_is_written_is_read_back(cache: Path) -> None:
    write_set("mine", some_arrays())
    found = read_set("mine")
    assert found.classes == ("left", 5)
    assert found.shape == (2, 3)
    assert torch.equal(found.x_train, torch.full((4, 2, 3), 7, dtype=torch.uint8))
    assert found.y_test.tolist() == [0, 1]
    assert found.y_test.dtype == torch.int64
    assert (found.mean, found.std) == ((0.5,), (0.25,))
    assert cached_names() == ["mine"]


def test_changing_a_loaded_image_leaves_the_file_alone(cache: Path) -> None:
    write_set("mine", some_arrays())
    read_set("mine").x_train.zero_()
    assert int(read_set("mine").x_train.min()) == 7


def test_writing_again_replaces_and_leaves_nothing_behind(cache: Path) -> None:
    write_set("mine", some_arrays(7))
    earlier = read_set("mine")
    write_set("mine", some_arrays(8))
    assert int(read_set("mine").x_train.max()) == 8
    assert int(earlier.x_train.max()) == 7
    assert [entry.name for entry in cache.iterdir()] == ["mine"]


def test_a_set_that_is_there_can_be_kept(cache: Path) -> None:
    write_set("mine", some_arrays(7))
    write_set("mine", some_arrays(8), replace=False)
    assert int(read_set("mine").x_train.max()) == 7
    assert [entry.name for entry in cache.iterdir()] == ["mine"]


def test_many_writers_at_once_leave_one_whole_set(cache: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda fill: write_set("mine", some_arrays(fill)), range(40)))
    assert read_set("mine").x_train.unique().numel() == 1
    assert [entry.name for entry in cache.iterdir()] == ["mine"]


def test_work_that_fails_leaves_nothing_behind(cache: Path) -> None:
    def interrupted() -> None:
        with temporary_folder("mine") as folder:
            (folder / "half").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(cache.iterdir()) == []


def test_what_a_killed_process_left_is_removed_after_a_day(cache: Path) -> None:
    old, new = cache / ".mine-old.tmp", cache / ".mine-new.tmp"
    old.mkdir(parents=True)
    new.mkdir()
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    write_set("mine", some_arrays())
    assert not old.exists()
    assert new.exists()
    assert cached_names() == ["mine"]


@pytest.mark.parametrize("part", ["x_train.npy", "y_test.npy"])
def test_a_truncated_file_is_noticed(cache: Path, part: str) -> None:
    write_set("mine", some_arrays())
    file = cache / "mine" / part
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(DataError, match=r"'mine' in .* is damaged .*: fetch or import it again"):
        read_set("mine")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}'])
def test_a_damaged_description_is_noticed(cache: Path, text: str) -> None:
    write_set("mine", some_arrays())
    (cache / "mine" / "set.json").write_text(text)
    with pytest.raises(DataError, match=r"is damaged"):
        read_set("mine")


def test_a_later_format_says_so(cache: Path) -> None:
    write_set("mine", some_arrays())
    path = cache / "mine" / "set.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(DataError, match=r"format 99, this crwn reads 1"):
        read_set("mine")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "x" * 101])
def test_names_that_are_no_folder_names_are_refused(cache: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"cannot be the name of a dataset"):
        write_set(name, some_arrays())


def test_a_cache_that_cannot_be_made_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("CRWN_DATA", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written .*: set CRWN_DATA"):
        write_set("mine", some_arrays())


def test_a_disk_that_fills_up_leaves_nothing_behind(cache: Path) -> None:
    pytest.importorskip("resource")
    script = """
import resource, signal, sys
import numpy as np
from crwn.data.cache import write_set
from crwn.data.image_set import Arrays
from crwn.errors import DataError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
x = np.zeros((1000, 1000), dtype=np.uint8)
y = np.zeros(1000, dtype=np.int64)
try:
    write_set("big", Arrays(x, y, x, y, (0, 1), "a test", (0.0,), (1.0,)))
except DataError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "'big' cannot be stored in" in done.stdout
    assert "no space left" in done.stdout
    assert list(cache.iterdir()) == []
