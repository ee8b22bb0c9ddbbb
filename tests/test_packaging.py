"""What people install: wheel and sdist build, imports are light, missing extras are named."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("sklearn", "fastapi", "ray", "plotly", "matplotlib", "onnx", "onnxruntime", "tensorboard", "huggingface_hub")


def _python(code: str, *, status: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist, made by the project's own build backend."""
    pytest.importorskip("hatchling", reason="the build backend is not installed: pip install hatchling")
    out = tmp_path_factory.mktemp("dist")
    for target in ("wheel", "sdist"):
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return out


def test_wheel_holds_the_package_and_all_it_reads(built: Path) -> None:
    (wheel,) = built.glob("crwn-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    here = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "crwn").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here <= names
    assert "crwn/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def test_sdist_holds_what_tests_need(built: Path) -> None:
    (sdist,) = built.glob("crwn-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "mkdocs.yml", "src/crwn/__init__.py"} <= names
    assert {"tests/test_packaging.py", "scripts/results_page.py", "results/bench/scale.json"} <= names


def test_wheel_works_from_an_empty_folder(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("crwn-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = "import crwn; crwn.Learner(crwn.FlyNet(8, 16, 2, seed=0)); print(crwn.__file__)"
    assert _python(code, PYTHONPATH=str(tmp_path / "installed")).startswith(str(tmp_path))


def test_importing_crwn_pulls_in_nothing_heavy() -> None:
    code = "import sys, crwn\nfor name in crwn.__all__: getattr(crwn, name, None) if name != 'Client' else None\n"
    code += f"print([name for name in {HEAVY!r} if name in sys.modules])"
    assert _python(code) == "[]"


def test_learning_needs_nothing_heavy() -> None:
    code = (
        "import sys, numpy as np, crwn\n"
        "x = np.eye(8, dtype='float32')\n"
        "learner = crwn.Learner(crwn.NeuroModNet(8, (16,), 2, seed=0))\n"
        "learner.learn('a', x, np.arange(8) % 2, batches=2, progress=False); learner.predict(x, task='a')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert _python(code) == "[]"


def test_importing_crwn_adds_little_to_importing_torch() -> None:
    code = (
        "import time; began = time.process_time(); import torch, numpy; between = time.process_time()\n"
        "import crwn; crwn.Learner; print((time.process_time() - between) / (between - began))"
    )
    # A share of the processor's time in one process: machines differ several times in speed, and so does a busy one.
    assert min(float(_python(code)) for _ in range(5)) < 0.5


def test_help_answers_without_torch() -> None:
    code = (
        "import sys\nsys.argv = ['crwn', '--help']\nfrom crwn.cli import main\n"
        "try: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    )
    found = _python(code)
    assert "Usage" in found
    assert found.splitlines()[-1] == "False"


def test_help_answers_quickly() -> None:
    def seconds() -> float:
        before = os.times().children_user + os.times().children_system
        done = subprocess.run([Path(sys.executable).with_name("crwn"), "--help"], capture_output=True, text=True)
        assert "Usage" in done.stdout, done.stderr
        return os.times().children_user + os.times().children_system - before

    assert min(seconds() for _ in range(3)) < 0.7


@pytest.mark.parametrize(
    ("blocked", "code", "extra"),
    [
        ("ray", "from crwn.training.engines.ray import RayEngine; list(RayEngine().run([1]))", "ray"),
        ("onnxruntime", "from crwn.integrations.onnx import export_onnx; export_onnx(None, 'a', 'a.onnx')", "onnx"),
        ("huggingface_hub", "from crwn.integrations.hub import from_pretrained; from_pretrained('a/b')", "hub"),
        ("tensorboard", "from crwn.integrations.tensorboard import TensorBoard; TensorBoard('x')", "tensorboard"),
        ("avalanche", "import crwn.integrations.avalanche", "avalanche"),
        ("psycopg", "import crwn; crwn.open_bank('postgresql://nobody@127.0.0.1:1/none')", "postgres"),
    ],
)
def test_missing_extras_are_named(blocked: str, code: str, extra: str, tmp_path: Path) -> None:
    whole = (
        f"import os, sys; os.chdir({str(tmp_path)!r}); sys.modules[{blocked!r}] = None\n"
        "from crwn.errors import MissingExtraError\n"
        f"try:\n    {code}\nexcept MissingExtraError as error: print(error)"
    )
    assert f'pip install "crwn[{extra}]"' in _python(whole)


def _imported() -> set[str]:
    """Top-level modules that some Python file of the project imports."""
    found: set[str] = set()
    for folder in ("src", "tests", "benchmarks", "scripts", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {name.name.partition(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module.partition(".")[0])
    return found


# What is used without an import in our files: as a command, a plugin, a driver by name, or an optional speed-up.
NOT_IMPORTED = {
    "hatchling": "builds the package",
    "httptools": "uvicorn's faster parser",
    "import-linter": "make lint",
    "mkdocs-material": "make docs",
    "mkdocstrings": "make docs",
    "mypy": "make lint",
    "pip-audit": "make audit",
    "pytest-benchmark": "plugin",
    "pytest-timeout": "plugin",
    "pytest-xdist": "plugin",
    "ruff": "make lint",
    "uvloop": "uvicorn's faster loop",
}


def test_every_dependency_is_used() -> None:
    import tomllib
    from importlib.metadata import packages_distributions

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *(one for some in project["optional-dependencies"].values() for one in some)]
    wanted = {re.split(r"[\[<>=; ]", one)[0].lower() for one in listed} - NOT_IMPORTED.keys()
    modules: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for name in distributions:
            modules.setdefault(name.lower(), set()).add(module)
    imported = _imported()
    unused = {name for name in wanted if not modules.get(name, {name.replace("-", "_")}) & imported}
    # Where these are not installed, the names of their modules are not known.
    assert unused <= {"avalanche-lib", "wordllama"}
