"""The PostgreSQL schema, as the steps that lead to it.

Step N brings a database from version N to N + 1 (the table `version`). Steps are only
ever added. Everything lies in the schema `collector`, so the database may be shared.

The number of a sandbox begins with the day on which it was first heard, and events are
partitioned by ranges of it, a day each. So the key (sandbox, boot, sequence) is unique by
an ordinary primary key, which in PostgreSQL has to hold the partition key (a partition by
the event's own time would let an event in twice, and its time is the sandbox's word);
all events of a sandbox lie in one partition, which is all that an explanation reads;
and because sandboxes are short-lived, a day's partition empties as a whole: retention
drops it, which costs the same for one row and for a billion.
"""

from __future__ import annotations

NAMESPACE = "collector"
DAY_BITS = 40  # below the day: a running number
TODAY = "floor(extract(epoch FROM now()) / 86400)::bigint"

STEPS: list[tuple[str, ...]] = [
    (
        "CREATE SEQUENCE sandbox_numbers",
        # acknowledged: the highest item number that is committed.
        f"""
        CREATE TABLE sandboxes (
            id bigint PRIMARY KEY DEFAULT
                ({TODAY} << {DAY_BITS})
                + nextval('sandbox_numbers') % (1::bigint << {DAY_BITS}),
            sandbox text NOT NULL,
            boot text NOT NULL,
            version text NOT NULL,
            coverage text NOT NULL,
            clock_offset_ns bigint NOT NULL,
            first_heard_ns bigint NOT NULL,
            last_heard_ns bigint NOT NULL,
            acknowledged bigint NOT NULL DEFAULT 0,
            UNIQUE (sandbox, boot)
        )
        """,
        "CREATE TABLE runs (run text PRIMARY KEY, first_heard_ns bigint NOT NULL)",
        """
        CREATE TABLE spans (
            sandbox bigint NOT NULL,
            key bigint NOT NULL,
            started_ns bigint NOT NULL,
            sequence bigint NOT NULL,
            run text NOT NULL,
            test text NOT NULL,
            outcome text NOT NULL,
            message bytea NOT NULL,
            PRIMARY KEY (sandbox, key, started_ns)
        )
        """,
        "CREATE INDEX spans_by_run ON spans (run, started_ns)",
        """
        CREATE TABLE events (
            sandbox bigint NOT NULL,
            sequence bigint NOT NULL,
            span bigint NOT NULL,
            kind text NOT NULL,
            time_ns bigint NOT NULL,
            message bytea NOT NULL,
            PRIMARY KEY (sandbox, sequence)
        ) PARTITION BY RANGE (sandbox)
        """,
        "CREATE INDEX events_by_span ON events (sandbox, span)",
        """
        CREATE TABLE outcomes (
            run text NOT NULL,
            test text NOT NULL,
            name text NOT NULL,
            outcome text NOT NULL,
            message text,
            duration_s double precision,
            sandbox text,
            started_ns bigint,
            PRIMARY KEY (run, test)
        )
        """,
    ),
    # What the client of a call tells of it, as JSON (probe.exchange).
    ("ALTER TABLE outcomes ADD COLUMN exchange text",),
]
