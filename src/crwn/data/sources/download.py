"""Download files with a short timeout, and compare length and checksum."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from crwn.data.progress import Progress
from crwn.errors import DataError


class UnreachableError(DataError):
    """The network or a host cannot be reached; the data itself may be fine."""


TIMEOUT = 8.0  # seconds; on a blocked network the next source is tried soon


def download(url: str, target: Path, progress: Progress, *, md5: str | None = None) -> None:
    """Save `url` to `target`.

    Raises:
        UnreachableError: the host cannot be reached.
        DataError: the download ends early, or the MD5 checksum differs.
    """
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response, target.open("wb") as file:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            done = 0
            while block := response.read(1 << 18):
                file.write(block)
                digest.update(block)
                done += len(block)
                progress(target.name, done, total)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise UnreachableError(f"{url} cannot be fetched ({getattr(error, 'reason', None) or error})") from None
    if total is not None and done != total:
        raise DataError(f"{url} stopped after {done} of {total} bytes")
    if md5 is not None and digest.hexdigest() != md5:
        raise DataError(f"{url} has MD5 {digest.hexdigest()} where {md5} is published: it is damaged or another file")
