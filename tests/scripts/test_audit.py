"""The check of installed packages for known vulnerabilities."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from audit import report

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit.py"


def test_flaws_fail_and_what_was_not_checked_is_said() -> None:
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    bad = {"name": "a", "version": "1.0", "vulns": [flaw]}
    good = {"name": "b", "version": "1.0", "vulns": []}
    unknown = {"name": "c", "skip_reason": "not found"}
    assert report([bad, good, unknown], "") == (
        ["a 1.0: PYSEC-1, mended in 2.0", "1 known vulnerabilities in 2 packages; 1 could not be checked"],
        1,
    )
    assert report([good], "") == (["0 known vulnerabilities in 1 packages"], 0)
    for found, problem, why in ([unknown], "", "no advisories for any of 1 packages"), ([], "no answer", "no answer"):
        (line,), status = report(found, problem)
        assert line.startswith("skipped: ")
        assert line.endswith(why)
        assert status == 0


@pytest.mark.slow
def test_installed_packages_have_no_known_vulnerabilities() -> None:
    pytest.importorskip("pip_audit", reason="pip-audit is not installed")
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600, check=False)
    if done.stdout.startswith("skipped"):
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
