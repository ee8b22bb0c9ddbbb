import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from crwn.data import fetch, import_data, load
from crwn.data.sources import cifar100 as source
from crwn.errors import DataError
from image_folders import MakeFolders

NAMES = ("apple", "aquarium_fish", "baby")


def write_archive(path: Path, *, rows: int = 6, cut: int = 0, names: tuple[str, ...] = NAMES) -> np.ndarray:
    """An archive laid out like the official one; returns its training table."""
    generator = np.random.default_rng(0)
    tables = {}
    with tarfile.open(path, "w:gz") as archive:
        for part in ("train", "test"):
            table = generator.integers(0, 256, (rows, source.ROW), dtype=np.uint8)
            table[:, 1] = np.arange(rows) % 3
            tables[part] = table
        contents = {
            "fine_label_names.txt": "\n".join(names).encode(),
            "train.bin": tables["train"].tobytes()[: rows * source.ROW - cut],
            "test.bin": tables["test"].tobytes(),
        }
        for name, data in contents.items():
            member = tarfile.TarInfo(f"cifar-100-binary/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return tables["train"]


def test_the_binary_archive_is_imported(cache: Path, tmp_path: Path) -> None:
    table = write_archive(tmp_path / "cifar-100-binary.tar.gz")
    import_data("cifar100", tmp_path / "cifar-100-binary.tar.gz")
    found = load("cifar100")
    assert found.classes == NAMES
    assert found.y_train.tolist() == [0, 1, 2, 0, 1, 2]
    red = table[4, 2 : 2 + 1024].reshape(32, 32)
    assert np.array_equal(found.x_train[4, 0].numpy(), red)
    assert found.mean == (0.491, 0.482, 0.447)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.98])
def test_a_changed_byte_anywhere_is_noticed(share: float, cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "cifar-100-binary.tar.gz"
    write_archive(path)
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(DataError):
        import_data("cifar100", path)


def test_damaged_archives_are_refused(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "cifar-100-binary.tar.gz"
    write_archive(path, cut=5)
    with pytest.raises(DataError, match=r"no whole number of images of 3074 bytes"):
        import_data("cifar100", path)
    write_archive(path, names=NAMES[:2])
    with pytest.raises(DataError, match=r"has class 2 but only 2 class names"):
        import_data("cifar100", path)
    write_archive(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"is not a whole cifar-100-binary"):
        import_data("cifar100", path)


def test_fetching_checks_the_archive(cache: Path, web: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = web
    write_archive(folder / "archive")
    monkeypatch.setattr(source, "ARCHIVE", address + "archive")
    with pytest.raises(DataError, match=r"is published: .*crwn data import cifar100 ZIP"):
        fetch("cifar100")
    assert list(cache.iterdir()) == []


def test_class_folders_are_normalised_like_the_official_set(cache: Path, make_folders: MakeFolders) -> None:
    import_data("cifar100", make_folders({"train/a": 3, "train/b": 3, "test/a": 1, "test/b": 1}))
    assert load("cifar100").std == (0.247, 0.243, 0.262)


def test_grey_images_are_no_cifar100(cache: Path, make_folders: MakeFolders) -> None:
    with pytest.raises(DataError, match=r"cifar100 has colour images, but .* \(5, 6\)"):
        import_data("cifar100", make_folders({"a": 3, "b": 3}, mode="L"))
