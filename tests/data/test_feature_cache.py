"""The feature cache: computed once, checked when read, bounded, and never a wrong number."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from crwn.data import feature_cache
from crwn.data.feature_cache import cached_features
from crwn.errors import ConfigError

SHAPE = (40, 50)


class Source:
    """Computes the same features every time, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0
        self.x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))

    def __call__(self) -> Iterator[Tensor]:
        self.calls += 1
        yield from self.x.split(16)


@pytest.fixture(autouse=True)
def _small_entries_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, "SMALL", 0)


def test_features_are_computed_once(cache: Path) -> None:
    source = Source()
    first, again = cached_features("a", SHAPE, source), cached_features("a", SHAPE, source)
    assert source.calls == 1
    assert torch.equal(first, source.x)
    assert torch.equal(again, source.x)
    assert sorted(file.name for file in (cache / "features").iterdir()) == ["a.json", "a.npy"]


def test_another_key_or_dtype_is_another_entry(cache: Path) -> None:
    source = Source()
    cached_features("a", SHAPE, source)
    cached_features("b", SHAPE, source)
    half = cached_features("c", SHAPE, source, dtype=torch.float16)
    assert source.calls == 3
    assert half.dtype == torch.float16
    assert torch.equal(half, source.x.half())


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _one_bit_changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


def _another_encoders(path: Path) -> None:
    np.save(path, np.zeros((40, 51), dtype=np.float32))


def _without_facts(path: Path) -> None:
    path.with_suffix(".json").unlink()


def _facts_of_nothing(path: Path) -> None:
    path.with_suffix(".json").write_text("[]")


def _an_older_format(path: Path) -> None:
    facts = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(facts | {"format": 0}))


@pytest.mark.parametrize(
    "damage",
    [_cut_short, _one_bit_changed, _another_encoders, _without_facts, _facts_of_nothing, _an_older_format],
)
def test_a_damaged_entry_is_made_anew(cache: Path, damage: object) -> None:
    source = Source()
    cached_features("a", SHAPE, source)
    damage(cache / "features" / "a.npy")  # type: ignore[operator]
    assert torch.equal(cached_features("a", SHAPE, source), source.x)
    assert source.calls == 2
    cached_features("a", SHAPE, source)
    assert source.calls == 2  # whole again


def test_a_killed_computation_leaves_no_entry(cache: Path) -> None:
    source = Source()

    def killed() -> Iterator[Tensor]:
        yield source.x[:16]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_features("a", SHAPE, killed)
    assert list((cache / "features").iterdir()) == []
    assert torch.equal(cached_features("a", SHAPE, source), source.x)


KILLED = """
import sys, time, torch
from crwn.data import feature_cache

feature_cache.SMALL = 0
x = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))

def compute():
    yield x[:16]
    print("half", flush=True)
    time.sleep(600)

feature_cache.cached_features("a", (40, 50), compute)
"""


def test_a_process_that_is_killed_leaves_no_entry_and_another_computes_the_same(cache: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    (left,) = (cache / "features").iterdir()  # what was written until then, under no entry's name
    assert left.suffix == ".part"
    source = Source()
    assert torch.equal(cached_features("a", SHAPE, source), source.x)
    assert source.calls == 1
    day = feature_cache.ABANDONED_AFTER + 1
    os.utime(left, (left.stat().st_mtime - day,) * 2)
    cached_features("b", SHAPE, source)
    assert not left.exists()


def test_the_entries_used_longest_ago_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRWN_FEATURES_GB", str(20_000 / 1e9))  # two entries of 8,000 bytes
    source = Source()
    for age, key in ((300, "old"), (100, "new")):
        cached_features(key, SHAPE, source)
        file = cache / "features" / f"{key}.npy"
        os.utime(file, (file.stat().st_mtime - age,) * 2)
    cached_features("old", SHAPE, source)  # used again: now "new" was used longest ago
    cached_features("third", SHAPE, source)
    kept = {file.stem for file in (cache / "features").glob("*.npy")}
    assert kept == {"old", "third"}
    assert {file.stem for file in (cache / "features").glob("*.json")} == kept


def test_entries_larger_than_the_cache_and_no_cache_at_all(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    for limit in ("0", "0.000001"):
        monkeypatch.setenv("CRWN_FEATURES_GB", limit)
        assert torch.equal(cached_features("a", SHAPE, source), source.x)
    assert not (cache / "features").exists()
    monkeypatch.setenv("CRWN_FEATURES_GB", "much")
    with pytest.raises(ConfigError, match="CRWN_FEATURES_GB is 'much': give a number of gigabytes"):
        cached_features("a", SHAPE, source)


def test_a_full_disk_keeps_features_in_memory_with_one_line(cache: Path) -> None:
    source = Source()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))  # writing past it fails as on a full disk
    try:
        with pytest.warns(UserWarning, match=r"features cannot be stored in .*features \(File too large\)") as said:
            found = cached_features("a", SHAPE, source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(said) == 1
    assert torch.equal(found, source.x)
    assert list((cache / "features").iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRWN_DATA", str(tmp_path / "file"))
    source = Source()
    with pytest.warns(UserWarning, match="features cannot be stored"):
        assert torch.equal(cached_features("a", SHAPE, source), source.x)
