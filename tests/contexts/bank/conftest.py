"""Banks for the tests: in memory, in SQLite, and in a real PostgreSQL server started for the session."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from crwn.contexts import Context
from crwn.contexts.bank import Bank, open_bank

MODEL = "ab" * 32
SHAPES = {"layers.0.v": (12,), "layers.0.alpha": (), "layers.1.v": (5,), "layers.1.alpha": ()}
Make = Callable[..., Context]


@pytest.fixture(scope="session")
def make() -> Make:
    """Makes a small context of its own numbers."""

    def make_context(name: str, seed: int = 0, *, model: str = MODEL, **more: object) -> Context:
        generator = torch.Generator().manual_seed(seed)
        tensors = {key: torch.randn(shape, generator=generator) for key, shape in SHAPES.items()}
        return Context(name, tensors, ("cat", "dog", 3), model, "2026-01-02T03:04:05+00:00", {"seed": seed, **more})

    return make_context


class PostgresServer:
    """A PostgreSQL server of our own on a free loopback port, in a folder that goes with it."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="crwn-postgres-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # PostgreSQL refuses to run as root, so root hands it to someone else.
        self._user: str | None = None
        if os.geteuid() == 0:
            known = {entry.pw_name for entry in pwd.getpwall()}
            self._user = "postgres" if "postgres" in known else "nobody"
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "crwn", "-A", "trust", "-E", "UTF8", "--no-locale")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def new_database(self) -> str:
        import psycopg

        name = f"bank_{uuid.uuid4().hex}"
        with psycopg.connect(f"postgresql://crwn@127.0.0.1:{self.port}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://crwn@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
            cwd=self.folder,
            timeout=120,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program} failed: {done.stderr!r} {log.read_text() if log.exists() else ''}")


def _find_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server; its programs are installed first where they are missing."""
    programs = _find_programs()
    if programs is None:
        script = Path(__file__).parents[3] / "scripts" / "install-postgres"
        done = subprocess.run([str(script)], capture_output=True, text=True)
        programs = _find_programs()
        if programs is None:
            pytest.skip(f"PostgreSQL cannot be had here: {done.stderr.strip()[-200:]}")
    server = PostgresServer(programs)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a bank that is not there yet, in each database."""
    if request.param == "sqlite":
        return str(tmp_path / "bank.sqlite")
    return str(request.getfixturevalue("postgres").new_database())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    """An empty bank of each kind."""
    place = None
    if request.param == "sqlite":
        place = str(tmp_path / "bank.sqlite")
    elif request.param == "postgres":
        place = request.getfixturevalue("postgres").new_database()
    with open_bank(place) as opened:
        yield opened
