"""A hook of mkdocs: links to files of the repo that are no pages of the site become plain text there."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`[text](../examples/file.py)` works where the repo is read; on the site only the text is left."""
    return re.sub(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)
