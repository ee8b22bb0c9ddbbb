import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crwn.data.folders import read_class_folders
from crwn.data.progress import silent
from crwn.errors import DataError
from image_folders import MakeFolders


def as_zip(folder: Path, *, with_folders: bool = False) -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for entry in sorted(folder.rglob("*")):
            if entry.is_file() or with_folders:
                archive.write(entry, entry.relative_to(folder).as_posix())
    return target


def test_a_folder_and_its_zip_give_the_same(make_folders: MakeFolders) -> None:
    folder = make_folders({"train/cat": 4, "train/ant": 3, "test/cat": 2, "test/ant": 1})
    for path in (folder, as_zip(folder), as_zip(folder, with_folders=True)):
        found = read_class_folders(path, silent)
        assert found.classes == ("ant", "cat")
        assert found.train[0].shape == (7, 3, 5, 6)
        assert found.train[1].tolist() == [0, 0, 0, 1, 1, 1, 1]
        assert found.test is not None
        assert found.test[1].tolist() == [0, 1, 1]
        pixels = np.asarray(Image.open(folder / "test" / "ant" / "0.png"))
        assert np.array_equal(found.test[0][0], pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("under", ["", "outer", "outer/inner"])
def test_folders_around_the_classes_do_not_matter(make_folders: MakeFolders, under: str) -> None:
    found = read_class_folders(as_zip(make_folders({"cat": 2, "ant": 3, "train": 1}, under=under)), silent)
    assert found.classes == ("ant", "cat", "train")
    assert found.test is None


def test_more_images_than_a_thread_takes_at_once_keep_their_order(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 150, "ant": 90}, size=(3, 3))
    told: list[int] = []
    found = read_class_folders(folder, lambda what, done, total: told.append(done))
    files = [*sorted((folder / "ant").iterdir()), *sorted((folder / "cat").iterdir())]
    assert np.array_equal(found.train[0], [np.asarray(Image.open(file)).transpose(2, 0, 1) for file in files])
    assert told[-1] == 240


def test_grey_images_stay_grey_until_one_has_colour(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 2, "ant": 2}, mode="L")
    assert read_class_folders(folder, silent).train[0].shape == (4, 5, 6)
    Image.new("RGB", (6, 5), (255, 0, 0)).save(folder / "cat" / "red.png")
    found = read_class_folders(folder, silent)
    assert found.train[0].shape == (5, 3, 5, 6)
    assert found.train[0][-1, 0].min() == 255


def test_files_that_are_no_images_and_hidden_ones_are_passed_over(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 2, "ant": 2})
    (folder / "cat" / "notes.txt").write_text("a cat")
    (folder / ".DS_Store").mkdir()
    (folder / ".DS_Store" / "0.png").write_bytes(b"nothing")
    assert len(read_class_folders(folder, silent).train[0]) == 4


def test_a_truncated_zip_is_refused(make_folders: MakeFolders) -> None:
    path = as_zip(make_folders({"cat": 2, "ant": 2}))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"is not a whole zip file"):
        read_class_folders(path, silent)


def test_a_zip_with_damaged_content_names_the_file(make_folders: MakeFolders) -> None:
    path = as_zip(make_folders({"cat": 2, "ant": 2}))
    data = bytearray(path.read_bytes())
    at = data.index(b"ant/1.png") + 60
    data[at : at + 4] = b"\x00\x01\x02\x03"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"ant/1.png in .* cannot be unpacked"):
        read_class_folders(path, silent)


@pytest.mark.parametrize("place", ["pear", "train/pear"])
def test_a_class_with_no_images_is_named(make_folders: MakeFolders, place: str) -> None:
    before = place.removesuffix("pear")
    folder = make_folders({f"{before}cat": 2, f"{before}ant": 2})
    (folder / place).mkdir()
    for path in (folder, as_zip(folder, with_folders=True)):
        with pytest.raises(DataError, match=r"class 'pear' in .* has no train images"):
            read_class_folders(path, silent)


def test_a_class_with_no_test_images_is_named(make_folders: MakeFolders) -> None:
    folder = make_folders({"train/cat": 2, "train/ant": 2, "test/cat": 1})
    with pytest.raises(DataError, match=r"class 'ant' in .* has no test images"):
        read_class_folders(folder, silent)


def test_images_of_different_sizes_are_resized_to_the_usual_one(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 2, "ant": 2})
    Image.new("RGB", (9, 8), (10, 20, 30)).save(folder / "cat" / "big.png")
    found = read_class_folders(folder, silent).train[0]
    assert found.shape == (5, 3, 5, 6)
    assert found[-1, :, 2, 3].tolist() == [10, 20, 30]
    assert np.array_equal(found[0], np.asarray(Image.open(folder / "ant" / "0.png")).transpose(2, 0, 1))


def test_a_broken_image_is_named(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 2, "ant": 2}, size=(40, 40))
    (folder / "cat" / "0.png").write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"cat/0.png in .* cannot be read as an image"):
        read_class_folders(folder, silent)
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(buffer, "png")
    (folder / "cat" / "0.png").write_bytes(buffer.getvalue()[: buffer.tell() // 2])
    with pytest.raises(DataError, match=r"cat/0.png in .* is damaged"):
        read_class_folders(folder, silent)


def test_images_without_classes_and_folders_without_images_are_refused(
    make_folders: MakeFolders, tmp_path: Path
) -> None:
    folder = make_folders({"cat": 2, "ant": 2})
    shutil.copy(folder / "cat" / "0.png", folder / "stray.png")
    with pytest.raises(DataError, match=r"stray.png in .* is in no class folder"):
        read_class_folders(folder, silent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has no images"):
        read_class_folders(tmp_path / "empty", silent)


def test_sixteen_bit_images_are_refused_rather_than_clipped(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 2, "ant": 2})
    Image.fromarray(np.full((5, 6), 4000, dtype=np.uint16)).save(folder / "cat" / "deep.png")
    with pytest.raises(DataError, match=r"cat/deep.png in .* more than 8 bits"):
        read_class_folders(folder, silent)


@pytest.mark.parametrize("beside", ["valid", "val", "dev", "eval"])
def test_validation_folders_are_for_judging(make_folders: MakeFolders, beside: str) -> None:
    found = read_class_folders(
        make_folders({"train/cat": 2, "train/ant": 2, f"{beside}/cat": 1, f"{beside}/ant": 1}), silent
    )
    assert found.classes == ("ant", "cat")
    assert found.test is not None
    assert len(found.test[0]) == 2


def test_something_unknown_beside_train_is_named(make_folders: MakeFolders) -> None:
    with pytest.raises(DataError, match="has extra beside train: leave only train and test"):
        read_class_folders(make_folders({"train/cat": 1, "train/ant": 1, "extra/cat": 1}), silent)


def test_an_image_that_lies_about_itself_is_named(make_folders: MakeFolders) -> None:
    folder = make_folders({"cat": 2})
    whole = bytearray((folder / "cat" / "0.png").read_bytes())
    whole[8:12] = (5).to_bytes(4, "big")  # the length of the header
    (folder / "cat" / "1.png").write_bytes(bytes(whole))
    with pytest.raises(DataError, match=r"cat/1\.png in .* cannot be read as an image"):
        read_class_folders(folder, silent)
