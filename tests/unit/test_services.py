"""What comes to a server comes out at its client, on stories told here."""

from __future__ import annotations

import pytest
from test_diagnose import ROOT, at, cause, ended

from probe.events import Connect, Event, Exec, File, Signal, Syscall

SERVER, CLIENT, WORKER = 101, 102, 103
BIND = {"errno": "EADDRNOTAVAIL", "detail": "10.42.7.19:6390", "port": 6390}


def reached(ms: int, server: int | None = SERVER) -> Connect:
    return Connect(
        **{**at(1, ms, CLIENT), "ppid": ROOT},
        family="ipv4",
        address="127.0.0.1",
        port=8080,
        server=server,
    )


def refused(ms: int, pid: int = SERVER) -> File:
    parent = SERVER if pid == WORKER else ROOT
    where = {**at(2, ms, pid), "ppid": parent}
    return File(**where, syscall="openat", path="/data/f", errno="EROFS", mount="/data")


def endings(status: int = 22, **client: object) -> list[Event]:
    """The client's, then the server's, which the test ends, then the whole's."""
    return [
        ended(3, 520, CLIENT, ppid=ROOT, code=status, **client),
        Signal(**at(7, 985), signal="SIGTERM", target=SERVER),
        ended(4, 990, SERVER, ppid=ROOT, code=None, signal="SIGTERM"),
        ended(5, 1000, code=status or 1),
    ]


def test_the_client_fails_over_what_came_to_its_server() -> None:
    assert cause([reached(500), refused(510), *endings()]) == "fs.read_only"


def test_a_worker_of_the_server_does_its_work() -> None:
    events = [reached(500), refused(510, WORKER), ended(6, 515, WORKER, ppid=SERVER, code=0)]
    assert cause([*events, *endings()]) == "fs.read_only"


def test_who_started_the_client_reads_the_answer() -> None:
    """curl ends with 0 whatever the status of the answer, and the script checks that."""
    assert cause([reached(500), refused(510), *endings(0)]) == "fs.read_only"


@pytest.mark.parametrize(
    ("events", "client"),
    [
        ([reached(500), refused(400)], {}),
        ([reached(500, server=None), refused(510)], {}),
        ([reached(500, server=WORKER), refused(510)], {}),
        ([reached(500), refused(600)], {}),
        ([reached(500), refused(510)], {"last_words": "AssertionError: 3 != 4"}),
    ],
    ids=["before", "no server", "another server", "after the client", "a fault of its own"],
)
def test_a_server_gets_over_what_has_nothing_to_do_with_its_client(
    events: list[Event], client: dict[str, object]
) -> None:
    assert cause([*events, *endings(**client)]) == "workload.failed"


@pytest.mark.parametrize(
    ("port", "expected"), [(6390, "net.family_unsupported"), (6391, "net.unreachable")]
)
def test_a_server_that_could_not_bind_is_not_reached(port: int, expected: str) -> None:
    gone = Connect(
        **{**at(3, 500, CLIENT), "ppid": ROOT},
        family="ipv4",
        address="10.42.7.19",
        port=port,
        errno="ENETUNREACH",
    )
    events = [
        Exec(**{**at(1, 90, SERVER), "ppid": ROOT}, path="/usr/bin/redis-server", argv=("r",)),
        Syscall(**{**at(2, 100, SERVER), "ppid": ROOT}, syscall="bind", **BIND),  # type: ignore[arg-type]
        ended(4, 110, SERVER, ppid=ROOT),
        gone,
        ended(5, 510, CLIENT, ppid=ROOT, last_words="connect: Network is unreachable"),
        ended(6, 1000),
    ]
    assert cause(events) == expected


@pytest.mark.parametrize(
    ("program", "others", "expected"),
    [
        ("/usr/bin/python3", [], "fs.read_only"),
        ("/bin/sh", [], "workload.failed"),
        ("/usr/bin/python3", [ended(5, 600, CLIENT, ppid=ROOT)], "workload.failed"),
    ],
    ids=["a pool", "a shell", "another child failed"],
)
def test_a_worker_hands_its_trouble_to_who_forked_it(
    program: str, others: list[Event], expected: str
) -> None:
    """It lives on, so it is its parent's end that counts."""
    events: list[Event] = [
        Exec(**at(1, 10), path=program, argv=(program, "index.py")),
        refused(510),
        ended(3, 520, SERVER, ppid=ROOT, code=0),
        *others,
        ended(4, 700, last_output="0 of 2 shards built"),
    ]
    assert cause(events) == expected
