"""Files that unpack to too much, or declare other sizes than they have: refused before memory is taken."""

from __future__ import annotations

import gzip
import io
import json
import resource
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crwn.data import bounded
from crwn.data.files import read_file, read_labelled
from crwn.data.sources.cifar100 import read_archive
from crwn.errors import DataError

HUGE = 2**45  # bytes that no machine has


def npy_header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    text = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zipped(path: Path, content: dict[str, bytes], declared: int | None = None) -> Path:
    """A zip of these files; `declared` is written into its lists as the unpacked size of each."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        if declared is not None:
            for member in archive.infolist():
                member.file_size = declared
    return path


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Lets this process take 3 GB more than it has: taking what a bomb declares fails at once."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 3 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_arrays_that_declare_more_than_they_have(tmp_path: Path) -> None:
    for shape in [(2**30, 2**10), (2**62, 2**62), (-1, 4), (3, 4)]:
        data = npy_header(shape) + bytes(64)
        (tmp_path / "x.npy").write_bytes(data)
        (tmp_path / "y.npy").write_bytes(data)
        with pytest.raises(DataError, match="cannot be read as an array"):
            read_file(tmp_path / "x.npy")
        with pytest.raises(DataError, match=r"cannot be read as .npz"):
            read_file(zipped(tmp_path / "both.npz", {"x.npy": data, "y.npy": data}))


def test_archives_that_declare_more_than_fits(tmp_path: Path) -> None:
    data = npy_header((HUGE // 4,))
    path = zipped(tmp_path / "huge.npz", {"x.npy": data, "y.npy": data}, declared=HUGE + len(data))
    with pytest.raises(DataError, match=r"bytes when unpacked, .* are free"):
        read_file(path)


def test_archives_that_declare_less_than_they_have(tmp_path: Path) -> None:
    data = npy_header((4, 4)) + bytes(2**20)
    path = zipped(tmp_path / "small.npz", {"x.npy": data, "y.npy": data}, declared=len(npy_header((4, 4))) + 64)
    with pytest.raises(DataError, match=r"cannot be read as .npz"):
        read_file(path)


def test_gzipped_files_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "free_memory", lambda: 2**23)
    idx = b"\x00\x00\x08\x01" + struct.pack(">I", 2**23) + bytes(2**23)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx))
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"a,label\n" + b"1,2\n" * 2**20))
    for name in ("train-images-idx3-ubyte.gz", "rows.csv.gz"):
        with pytest.raises(DataError, match=r"unpacks to more than 1,048,576 bytes"):
            read_labelled(tmp_path / name)


def test_zips_of_images_with_a_bomb(tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("L", (8, 8)).save(picture, "png")
    content = {"cat/1.png": picture.getvalue(), "dog/2.png": zlib.compress(b"")}
    path = zipped(tmp_path / "pets.zip", content, declared=HUGE)
    with pytest.raises(DataError, match="an image has at most"):
        read_labelled(path)


def test_many_images_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("L", (64, 64)).save(tmp_path / name / "1.png")
    assert read_labelled(tmp_path)[0].shape == (2, 64, 64)
    monkeypatch.setattr(bounded, "free_memory", lambda: 2 * 64 * 64 - 1)
    with pytest.raises(DataError, match=r"2 images of 64 x 64 has 8,192 bytes"):
        read_labelled(tmp_path)


def test_an_official_archive_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cifar-100-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, size in (("fine_label_names.txt", 0), ("train.bin", 2**21), ("test.bin", 2**21)):
            member = tarfile.TarInfo(f"cifar-100-binary/{name}")
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    monkeypatch.setattr(bounded, "free_memory", lambda: 2**20)
    with pytest.raises(DataError, match=r"train.bin in the archive has .* bytes when unpacked"):
        read_archive(path)


def test_columns_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"a": np.zeros(2**20), "label": np.zeros(2**20, dtype=np.int64)})
    parquet.write_table(table, tmp_path / "rows.parquet")
    monkeypatch.setattr(bounded, "free_memory", lambda: 2**24 - 1)
    with pytest.raises(DataError, match=r"has 16,777,216 bytes when unpacked"):
        read_labelled(tmp_path / "rows.parquet")


def test_whole_arrays_are_read_as_numpy_reads_them(tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(12, dtype=np.float64).reshape(3, 4))
    np.savez_compressed(tmp_path / "rows.npz", x=x, y=np.array(["a", "b", "c"]), other=json.dumps({}))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.array([1, 2, 3], dtype=">i2"))
    for name in ("rows.npz", "x.npy"):
        found, labels = read_labelled(tmp_path / name)
        np.testing.assert_array_equal(found, x)
        assert labels is not None
        assert labels.tolist() in (["a", "b", "c"], [1, 2, 3])
