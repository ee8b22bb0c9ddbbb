"""`crwn serve`: a model and its tasks over HTTP, with a web page."""

from __future__ import annotations

from typing import Annotated

import typer

from crwn.cli.options import ModelOrRun

EPILOG = "Example: crwn serve digits.crwn --port 8080"


def command(
    model: ModelOrRun,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but a loopback address needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(envvar="CRWN_TOKEN", show_envvar=True, help="Bearer token that requests which write must send."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every request that writes.")] = False,
    resident: Annotated[int, typer.Option(min=1, help="Number of recently used tasks kept in memory.")] = 4096,
) -> None:
    """Serve a model over HTTP: predict, infer tasks, learn tasks and exchange contexts; the web page is at /."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        from crwn.errors import MissingExtraError

        raise MissingExtraError("crwn serve", "serve") from None
    from crwn.learner import Learner
    from crwn.serve.access import Access
    from crwn.serve.running import serve

    Access(token or None, read_only).check_host(host)
    with Learner.load(model, resident=resident) as learner:
        count = len(learner.bank)

        def ready(address: str) -> None:
            typer.echo(f"serving {count:,} tasks of {model} at {address}", err=True)

        serve(learner, host=host, port=port, token=token or None, read_only=read_only, ready=ready)
