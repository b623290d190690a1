"""From what the user gives with --db to a store."""

from __future__ import annotations

from pathlib import Path

from collector.store.interface import Store
from collector.store.sqlite import SqliteStore
from probe.problem import Problem

_SQLITE = "sqlite://"
_POSTGRES = ("postgresql://", "postgres://")


def open_store(url: str, *, create: bool = True) -> Store:
    """`PATH`, `sqlite:///PATH` or `postgresql://…`. Problem where there is no database to be had.

    With `create`, a file or a schema that does not exist is made; without, the store is for
    reading only.
    """
    if url.startswith(_POSTGRES):
        return _postgres(url, create)
    if not url.startswith(_SQLITE) and "://" in url:
        scheme = url.partition("://")[0]
        raise Problem(
            f"--db: {scheme}:// is no known database",
            "give the path of a SQLite file, or postgresql://…",
        )
    path = url.removeprefix(_SQLITE)
    if path != url:
        path = path.removeprefix("/")  # sqlite:///relative, sqlite:////absolute
    if not path:
        raise Problem("--db: no file is named", "give the path of a SQLite file")
    return SqliteStore(Path(path), create=create)


def _postgres(url: str, create: bool) -> Store:
    try:
        from collector.store.postgres import PostgresStore
    except ImportError:  # the driver, or the libpq that it needs
        raise Problem(
            "--db: the PostgreSQL driver is not installed",
            "pip install 'sandbox-probe[collector,postgres]'",
        ) from None
    return PostgresStore(url, create=create)
