"""The SQLite schema, as the steps that lead to it.

Step N brings a database from version N to N + 1 (`PRAGMA user_version`). Steps are
only ever added: databases of every version are out there (tests/data/stores).
"""

from __future__ import annotations

from collector.store import sqlite_version_1 as version_1

APPLICATION_ID = 0x50524F42  # "PROB": tells our files from other SQLite databases

STEPS: list[tuple[str, ...]] = [
    (
        # acknowledged: the highest item number that is committed.
        """
        CREATE TABLE sandboxes (
            id INTEGER PRIMARY KEY,
            sandbox TEXT NOT NULL,
            boot TEXT NOT NULL,
            version TEXT NOT NULL,
            coverage TEXT NOT NULL,
            clock_offset_ns INTEGER NOT NULL,
            first_heard_ns INTEGER NOT NULL,
            last_heard_ns INTEGER NOT NULL,
            acknowledged INTEGER NOT NULL DEFAULT 0,
            UNIQUE (sandbox, boot)
        )
        """,
        "CREATE TABLE runs (run TEXT PRIMARY KEY, first_heard_ns INTEGER NOT NULL)",
        """
        CREATE TABLE spans (
            sandbox INTEGER NOT NULL REFERENCES sandboxes (id),
            key INTEGER NOT NULL,
            started_ns INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            run TEXT NOT NULL,
            test TEXT NOT NULL,
            command TEXT NOT NULL,
            pid INTEGER NOT NULL,
            whole_process INTEGER NOT NULL,
            ended_ns INTEGER,
            exit_code INTEGER,
            signal TEXT,
            outcome TEXT NOT NULL,
            message TEXT,
            labels TEXT NOT NULL,
            coverage TEXT NOT NULL,
            lost TEXT NOT NULL,
            PRIMARY KEY (sandbox, key, started_ns)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX spans_by_run ON spans (run, started_ns)",
        # detail: the fields that only this kind has, as a JSON object.
        """
        CREATE TABLE events (
            sandbox INTEGER NOT NULL REFERENCES sandboxes (id),
            sequence INTEGER NOT NULL,
            kind TEXT NOT NULL,
            time_ns INTEGER NOT NULL,
            pid INTEGER NOT NULL,
            tid INTEGER NOT NULL,
            ppid INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            comm TEXT NOT NULL,
            exe TEXT NOT NULL,
            count INTEGER NOT NULL,
            span INTEGER NOT NULL,
            mnt_ns INTEGER NOT NULL,
            detail TEXT NOT NULL,
            PRIMARY KEY (sandbox, sequence)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX events_by_span ON events (sandbox, span)",
        """
        CREATE TABLE outcomes (
            run TEXT NOT NULL,
            test TEXT NOT NULL,
            name TEXT NOT NULL,
            outcome TEXT NOT NULL,
            message TEXT,
            duration_s REAL,
            PRIMARY KEY (run, test)
        ) WITHOUT ROWID
        """,
    ),
    (
        # Events and spans as the messages that they came in; functions of sqlite_version_1.
        "ALTER TABLE events RENAME TO events_1",
        "DROP INDEX events_by_span",
        """
        CREATE TABLE events (
            sandbox INTEGER NOT NULL REFERENCES sandboxes (id),
            sequence INTEGER NOT NULL,
            span INTEGER NOT NULL,
            kind TEXT NOT NULL,
            time_ns INTEGER NOT NULL,
            message BLOB NOT NULL,
            PRIMARY KEY (sandbox, sequence)
        ) WITHOUT ROWID
        """,
        f"""
        INSERT INTO events SELECT sandbox, sequence, span, kind, time_ns,
            event_message({", ".join(version_1.EVENT_COLUMNS)}) FROM events_1
        """,
        "DROP TABLE events_1",
        "CREATE INDEX events_by_span ON events (sandbox, span)",
        "ALTER TABLE spans RENAME TO spans_1",
        "DROP INDEX spans_by_run",
        """
        CREATE TABLE spans (
            sandbox INTEGER NOT NULL REFERENCES sandboxes (id),
            key INTEGER NOT NULL,
            started_ns INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            run TEXT NOT NULL,
            test TEXT NOT NULL,
            outcome TEXT NOT NULL,
            message BLOB NOT NULL,
            PRIMARY KEY (sandbox, key, started_ns)
        ) WITHOUT ROWID
        """,
        f"""
        INSERT INTO spans SELECT sandbox, key, started_ns, sequence, run, test, outcome,
            span_message({", ".join(version_1.SPAN_COLUMNS)}) FROM spans_1
        """,
        "DROP TABLE spans_1",
        "CREATE INDEX spans_by_run ON spans (run, started_ns)",
        # Where and when the harness ran the test, where it said so.
        "ALTER TABLE outcomes ADD COLUMN sandbox TEXT",
        "ALTER TABLE outcomes ADD COLUMN started_ns INTEGER",
    ),
    # What the client of a call tells of it, as JSON (probe.exchange).
    ("ALTER TABLE outcomes ADD COLUMN exchange TEXT",),
]
