"""From what the user gives with --db to a store."""

from __future__ import annotations

from pathlib import Path

from collector.store.interface import Store
from collector.store.sqlite import SqliteStore
from probe.problem import Problem

_SQLITE = "sqlite://"


def open_store(url: str, *, create: bool = True) -> Store:
    """`PATH` or `sqlite:///PATH`. Problem where there is no database to be had.

    With `create`, a file that does not exist is made; without, the store is for reading only.
    """
    if not url.startswith(_SQLITE) and "://" in url:
        scheme = url.partition("://")[0]
        raise Problem(f"--db: {scheme}:// is no known database", "give the path of a SQLite file")
    path = url.removeprefix(_SQLITE)
    if path != url:
        path = path.removeprefix("/")  # sqlite:///relative, sqlite:////absolute
    if not path:
        raise Problem("--db: no file is named", "give the path of a SQLite file")
    return SqliteStore(Path(path), create=create)
