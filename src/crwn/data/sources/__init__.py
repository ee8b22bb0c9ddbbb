"""Known datasets, one file each, and the catalogue that loads, fetches and imports them."""

from crwn.data.sources.catalogue import available, fetch, import_data, load

__all__ = ["available", "fetch", "import_data", "load"]
