"""Contexts: what one task learned, many contexts stacked, their checks and similarity; `bank/` stores them.

Nothing here computes with a model. May import: `data`, `models`, `layers`, `errors`.
"""

from crwn.contexts.checks import check_label
from crwn.contexts.context import Context, check_model, check_shapes, now, stored_checksum
from crwn.contexts.dtype import STORES, Store, check_store
from crwn.contexts.info import ContextInfo, to_json
from crwn.contexts.labels import decode_label, encode_label
from crwn.contexts.names import check_free, check_name
from crwn.contexts.record import StoredContext
from crwn.contexts.stack import ContextStack

__all__ = [
    "STORES",
    "Context",
    "ContextInfo",
    "ContextStack",
    "Store",
    "StoredContext",
    "check_free",
    "check_label",
    "check_model",
    "check_name",
    "check_shapes",
    "check_store",
    "decode_label",
    "encode_label",
    "now",
    "stored_checksum",
    "to_json",
]
