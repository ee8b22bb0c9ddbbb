"""The web page and its files."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from crwn.serve.errors import ServeError

router = APIRouter(include_in_schema=False)

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
}
_FOLDER = files("crwn.serve") / "page"
_NAMES = {file.name for file in _FOLDER.iterdir()}


@router.get("/")
def page() -> Response:
    return page_file("page.html")


@router.get("/page/{name}")
def page_file(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    if name not in _NAMES or kind is None:
        raise ServeError(404, "not_found", "there is no such file")
    return Response((_FOLDER / name).read_bytes(), media_type=kind, headers=_HEADERS)
