"""What tasks learned: one context alone (and as bytes or a file), and many stacked so that a row picks its own."""

from crwn.context.context import (
    Context,
    check_model,
    check_name,
    check_shapes,
    now,
    stored_checksum,
    to_json,
)
from crwn.context.labels import decode_label, encode_label, plain_label
from crwn.context.stack import ContextStack
from crwn.context.stores import STORES, Store, check_store

__all__ = [
    "STORES",
    "Context",
    "ContextStack",
    "Store",
    "check_model",
    "check_name",
    "check_shapes",
    "check_store",
    "decode_label",
    "encode_label",
    "now",
    "plain_label",
    "stored_checksum",
    "to_json",
]
