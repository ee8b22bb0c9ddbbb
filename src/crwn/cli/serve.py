"""`crwn serve`: a model and its tasks over HTTP, with a web page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crwn.cli.module import build_module
from crwn.cli.options import ModelOrRun, Module, counted, from_environment, note
from crwn.errors import ConfigError

if TYPE_CHECKING:
    from crwn.learner import Learner
    from crwn.serve.limits import Limits

EPILOG = "Example: crwn serve digits.crwn --port 8080"
TOKEN_HELP = "Bearer token that requests which write must send; other users of this machine see it in `ps`."
BANK_HELP = "Bank of contexts instead of the folder's own, such as postgresql://user@host/database."
Token = Annotated[str | None, from_environment("CRWN_TOKEN", TOKEN_HELP)]
BankAddress = Annotated[str | None, from_environment("CRWN_BANK", BANK_HELP)]


def command(
    model: ModelOrRun,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but a loopback address needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    token: Token = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the token in its first line.")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Further host name that requests may use; may be given several times."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every request that writes.")] = False,
    resident: Annotated[int, typer.Option(min=1, help="Number of recently used tasks kept in memory.")] = 4096,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes that serve; they share the bank and its tasks.")
    ] = 1,
    bank: BankAddress = None,
    module: Module = None,
) -> None:
    """Serve a model over HTTP: predict, infer tasks, learn tasks and exchange contexts; the web page is at /."""
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        from crwn.errors import MissingExtraError

        raise MissingExtraError("crwn serve", "serve") from None
    if "://" in str(model) or ":/" in str(model):
        raise ConfigError("a bank's address is no model folder: `crwn serve MODEL --bank postgresql://...`")
    from crwn.serve.access import Access, read_token
    from crwn.serve.running import serve

    if token and token_file is not None:
        raise ConfigError("both a token and --token-file are given: give one of them")
    token = read_token(token_file) if token_file is not None else token or None
    Access(token, read_only).check_host(host)
    settings: dict[str, Any] = {"host": host, "token": token, "read_only": read_only, "hosts": allow_host or []}
    limits = _limits()
    if workers > 1:
        opened = {"model": str(model), "bank": bank, "resident": resident, "module": module}
        opened["connections"] = limits.connections
        _run_workers(workers, port, opened, settings)
        return
    with open_learner(model, bank, resident, module) as learner:
        serving = f"{counted(len(learner.bank), 'task')} of {model}"
        serve(learner, port=port, ready=lambda address: _ready(serving, address), limits=limits, **settings)


def _limits() -> Limits:
    """Limits of the service, with a note where the system allows fewer connections than usual."""
    import warnings

    from crwn.serve.limits import Limits
    from crwn.serve.running import within_open_files

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        limits = within_open_files(Limits())
    for warning in caught:
        note(f"note: {warning.message}")
    return limits


def _run_workers(count: int, port: int, opened: dict[str, Any], settings: dict[str, Any]) -> None:
    import os
    import sys

    from crwn.serve.running import address_of, open_socket
    from crwn.serve.workers import Workers

    if sys.platform == "win32":
        raise ConfigError("--workers passes open sockets on, which Windows does not do like this: serve without it")
    program = [sys.executable, "-P", "-m", "crwn.cli.serve_worker"]
    threads = max(1, (os.cpu_count() or 1) // count)
    with open_socket(settings["host"], port) as listening:
        given = {**opened, "threads": threads, "serve": settings}
        serving = f"{{}} of {opened['model']} with {count} workers"
        address = address_of(settings["host"], listening)
        Workers(program, given, listening, count).run(
            lambda tasks: _ready(serving.format(counted(tasks, "task")), address)
        )


def open_learner(model: Path, bank: str | None, resident: int, module: str | None) -> Learner:
    """The learner of a model folder, over its own bank or another."""
    from crwn.learner import Learner
    from crwn.learner.folder import find_folder, read_model

    if bank is None:
        return Learner.load(model, resident=resident, model=build_module(module))
    return Learner(read_model(find_folder(model), build_module(module)), bank=bank, resident=resident)


def _ready(what: str, address: str) -> None:
    typer.echo(f"serving {what} at {address}", err=True)
