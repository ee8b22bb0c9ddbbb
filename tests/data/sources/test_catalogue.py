from pathlib import Path

import numpy as np
import pytest

from crwn.data import available, fetch, import_data, load
from crwn.errors import DataError


def test_own_data_is_imported_listed_and_loaded(cache: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(60.0).reshape(20, 3) / 7, y=["no", "yes"] * 10)
    facts = import_data("mine", tmp_path / "a.npz")
    assert (facts["train_rows"], facts["test_rows"], facts["classes"], facts["shape"]) == (16, 4, 2, [3])
    listed = {entry["name"]: entry for entry in available()}
    assert listed["mine"]["cached"]
    assert not listed["mnist"]["cached"]
    assert listed["mini_imagenet"]["get"] == "crwn data import mini_imagenet PATH"
    mine = load("mine")
    assert mine.classes == ("no", "yes")
    assert len(mine.mean) == 3


def test_a_damaged_set_is_listed_with_its_problem(cache: Path) -> None:
    load("digits")
    (cache / "digits" / "set.json").write_text("{")
    listed = {entry["name"]: entry for entry in available()}
    assert not listed["digits"]["cached"]
    assert "damaged" in listed["digits"]["problem"]
    fetch("digits")
    assert len(load("digits").x_train) > 1000


def test_names_and_paths_that_lead_nowhere_say_what_to_do(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no dataset 'minst', did you mean 'mnist'\? .*crwn data import minst PATH"):
        load("minst")
    with pytest.raises(DataError, match=r"'mini_imagenet' cannot be fetched: import it with `crwn data import"):
        load("mini_imagenet")
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        import_data("mine", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"'digits' comes with crwn"):
        import_data("digits", tmp_path)
    assert not cache.exists() or list(cache.iterdir()) == []


def test_a_failed_import_keeps_the_set_that_was_there(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones((10, 3)), y=[0, 1] * 5)
    import_data("mine", path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError):
        import_data("mine", path)
    assert len(load("mine").x_train) == 8
