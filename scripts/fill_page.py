"""Put generated tables into a hand-written page: what stands between `<!-- NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping


def fill(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with its generated parts replaced.

    >>> fill("before <!-- costs -->\\nold\\n<!-- end --> after", {"costs": "new"})
    'before <!-- costs -->\\nnew\\n<!-- end --> after'

    Raises:
        ValueError: the page has no place for a part, or more than one.
    """
    for name, text in parts.items():
        places = list(re.finditer(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", page, re.DOTALL))
        if len(places) != 1:
            raise ValueError(f"the page has {len(places)} places for {name}, not one: <!-- {name} --> ... <!-- end -->")
        page = f"{page[: places[0].start()]}{text}\n{page[places[0].end() :]}"
    return page
