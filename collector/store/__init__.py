"""Where everything is kept. SQL is spoken in this package only."""

from __future__ import annotations

from collector.store.interface import (
    Away,
    Delivery,
    EventRow,
    Hello,
    Observation,
    Pruned,
    Status,
    Store,
)
from collector.store.url import open_store

__all__ = [
    "Away",
    "Delivery",
    "EventRow",
    "Hello",
    "Observation",
    "Pruned",
    "Status",
    "Store",
    "open_store",
]
