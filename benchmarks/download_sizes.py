"""What `make demo` and `make test` download: the sizes of the wheels that pip would fetch into an empty environment.

    git clone . old && git -C old checkout 0f0802a       # before the demo had extras of its own
    python benchmarks/download_sizes.py --before old --out results/bench/download_sizes.json

Nothing is installed: `pip install --dry-run --ignore-installed --report` lists the wheels, and their servers are asked
for the sizes. torch is the build for CPUs where pip finds that one (`--find-links`); the default build for Linux brings
CUDA.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from write_record import write_record


def wheels(source: Path, *wanted: str, dependencies: bool = True) -> dict[str, str]:
    """Name and address of every wheel that pip would fetch for these requirements, this project's own aside."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        options += ["-c", str(source / "constraints.txt")] if dependencies else ["--no-deps"]
        subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, *wanted], check=True, stderr=subprocess.DEVNULL
        )
        listed = json.loads(report.read_text())["install"]
    found = {one["metadata"]["name"].lower(): one["download_info"]["url"] for one in listed}
    return {name: address for name, address in found.items() if name != "crwn"}


def size(address: str) -> int:
    """Bytes of a wheel on this disk or on a server."""
    if address.startswith("file:"):
        return Path(unquote(urlparse(address).path)).stat().st_size
    with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=60) as answer:
        return int(answer.headers["Content-Length"])


def extras(makefile: str, name: str) -> str:
    """The extras that a variable of the Makefile names, with those of other variables written out."""
    (value,) = re.findall(rf"^{name} := (.*)$", makefile, flags=re.MULTILINE)
    return re.sub(r"\$\((\w+)\)", lambda match: extras(makefile, match[1]), value.strip())


def avalanche(source: Path) -> dict[str, str]:
    """The wheels of `scripts/install-avalanche`: its first command is without dependencies, its second with them."""
    script = (source / "scripts" / "install-avalanche").read_text().replace("\\\n", " ")
    alone, whole = (line for line in script.splitlines() if " pip install" in line)
    named = re.findall(r"[a-z][a-z-]*==[\d.]+", alone)
    others = whole.partition('constraints.txt"')[2].split()
    return wheels(source, *named, dependencies=False) | wheels(source, *others)


def total(found: dict[str, str]) -> dict[str, Any]:
    """Megabytes altogether, and of the largest wheels."""
    sizes = {name: size(address) for name, address in found.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:8]
    return {
        "megabytes": round(sum(sizes.values()) / 1e6, 1),
        "wheels": len(sizes),
        "largest": {name: round(sizes[name] / 1e6, 1) for name in largest},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a clone from before the demo had extras of its own")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    here, before = Path(__file__).resolve().parents[1], given.before.resolve()
    make, made_before = ((place / "Makefile").read_text() for place in (here, before))
    found = {
        "demo_before": wheels(before, f"{before}[{extras(made_before, 'EXTRAS')}]") | avalanche(before),
        "demo": wheels(here, f"{here}[{extras(make, 'DEMO_EXTRAS')}]"),
        "test": wheels(here, f"{here}[{extras(make, 'EXTRAS')}]") | avalanche(here),
    }
    sizes = {name: total(one) for name, one in found.items()}
    share = round(sizes["demo"]["megabytes"] / sizes["demo_before"]["megabytes"], 3)
    write_record({"share_of_before": share, **sizes}, given.out)


if __name__ == "__main__":
    main()
