"""Compare the installed packages with the known vulnerabilities of the package index: `make audit`.

Prints one line for each vulnerable package and exits with 1. Where the index does not answer, or has no advisories for
any package, as mirrors often have not, nothing was checked: the line begins with "skipped", the exit status is 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SECONDS = 300
COMMAND = [sys.executable, "-m", "pip_audit", "--skip-editable", "--progress-spinner", "off", "--format", "json"]


def audit() -> tuple[list[dict[str, Any]], str]:
    """What pip-audit found for every installed package, and why it found nothing where it could not."""
    try:
        done = subprocess.run(
            [*COMMAND, "--timeout", "10"], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return [], f"the index did not answer within {SECONDS} s"
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except (ValueError, KeyError):
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
        return [], f"pip-audit ended with: {lines[-1].strip()[:200]}"


def report(found: list[dict[str, Any]], problem: str) -> tuple[list[str], int]:
    """The lines to print, and the exit status."""
    checked = [one for one in found if "skip_reason" not in one]
    lines = [
        f"{one['name']} {one['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for one in checked
        for flaw in one.get("vulns", [])
    ]
    if not checked:
        why = problem or f"the index has no advisories for any of {len(found)} packages"
        return [f"skipped: known vulnerabilities were not checked, because {why}"], 0
    unknown = len(found) - len(checked)
    rest = f"; {unknown} could not be checked" if unknown else ""
    return [*lines, f"{len(lines)} known vulnerabilities in {len(checked)} packages{rest}"], int(bool(lines))


def main() -> int:
    lines, status = report(*audit())
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
