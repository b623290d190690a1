"""What belongs to one command: told from processes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_message import EVENTS

from probe.asking import Searches, _is_of
from probe.events import Event, Exec, Exit
from probe.job import Job, jobs

MS = 1_000_000
SHELL = 10


class History:
    """Processes that run one after another, or at once, in one session."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def run(
        self,
        pid: int,
        start: int,
        end: int | None,
        *argv: str,
        parent: int = SHELL,
        code: int = 0,
        session: int = SHELL,
        uid: int = 0,
    ) -> History:
        """A program from `start` to `end` (ms); None for one that lives on."""
        common = {"pid": pid, "ppid": parent, "session": session, "uid": uid}
        started = {"path": argv[0], "argv": argv}
        self.events.append(Exec(sequence=self._next, time_ns=start * MS, **common, **started))
        if end is not None:
            duration = (end - start) / 1000
            ended = {"code": code, "duration_s": duration}
            self.events.append(Exit(sequence=self._next, time_ns=end * MS, **common, **ended))
        return self

    @property
    def _next(self) -> int:
        return len(self.events) + 1

    def jobs(self) -> list[Job]:
        return jobs(sorted(self.events, key=lambda event: (event.time_ns, event.sequence)))

    def commands(self) -> list[tuple[str, ...]]:
        return [job.command for job in self.jobs()]


def test_one_after_another() -> None:
    history = History().run(11, 0, 50, "make").run(12, 60, 70, "ls").run(13, 71, 80, "cat")
    assert history.commands() == [("make",), ("ls",), ("cat",)]


def test_children_belong_to_their_command() -> None:
    history = History().run(11, 0, 90, "make", code=2).run(12, 10, 50, "cc", parent=11, code=1)
    [job] = history.jobs()
    assert job.command == ("make",) and job.failed and {11, 12} <= job.pids
    assert (job.started_ns, job.ended_ns) == (0, 90 * MS)


def test_a_pipeline_is_one_command_with_the_words_of_who_failed() -> None:
    history = (
        History().run(11, 0, 50, "cat", "x", code=1).run(12, 1, 60, "sort").run(13, 2, 61, "wc")
    )
    [job] = history.jobs()
    assert job.command == ("cat", "x", "|", "sort", "|", "wc")
    assert job.top.pid == 11


def test_what_still_runs_is_no_job() -> None:
    history = History().run(11, 0, None, "server").run(12, 10, 20, "worker", parent=11, code=1)
    [job] = history.jobs()
    assert job.command == ("worker",)


def test_what_a_shell_ran_is_told_apart_when_the_shell_has_gone() -> None:
    history = History().run(SHELL, 0, 100, "-bash", parent=1)
    history.run(11, 10, 20, "make", code=2).run(12, 30, 40, "ls")
    assert history.commands() == [("make",), ("ls",), ("-bash",)]
    script = History().run(SHELL, 0, 100, "bash", "build.sh", parent=1, code=2)
    script.run(11, 10, 20, "make", code=2)
    assert script.commands() == [("bash", "build.sh")]


def test_a_session_is_apart_from_who_let_it_in() -> None:
    history = History().run(5, 0, 100, "sshd", parent=1, session=5, code=255)
    history.run(SHELL, 10, 20, "cat", parent=5, code=1, uid=1000)
    assert [(job.command, job.uids) for job in history.jobs()] == [
        (("cat",), {1000}),
        (("sshd",), {0}),
    ]


def test_a_number_that_is_used_again_is_another_process() -> None:
    history = History().run(11, 0, 10, "one", code=1).run(11, 50, 60, "two")
    assert history.commands() == [("one",), ("two",)]
    assert [job.failed for job in history.jobs()] == [True, False]


@given(st.lists(EVENTS, max_size=40))
def test_any_history_has_jobs(events: list[Event]) -> None:
    ordered = sorted(events, key=lambda event: (event.time_ns, event.sequence))
    found = jobs(ordered)
    told = [id(event) for job in found for event in job.events]
    assert len(told) == len(set(told)) and set(told) <= set(map(id, events))
    for job in found:
        assert job.top.exit is not None and job.started_ns <= job.ended_ns and job.command


def test_one_line_for_a_search() -> None:
    def told(kind: str, path: str, errno: str | None = None, pid: int = 1) -> dict[str, object]:
        return {"event": {"pid": pid, "kind": kind, "path": path, "errno": errno}}

    searches = Searches()
    assert searches.settled(told("exec", "/a/jq", "ENOENT")) == []
    assert searches.settled(told("exec", "/b/jq", "ENOENT")) == []
    found = told("exec", "/c/jq")
    assert searches.settled(found) == [found]
    missed, ended = told("exec", "/b/gs", "ENOENT"), told("exit", "")
    assert searches.settled(missed) == []
    other = told("exec", "/a/jq", "ENOENT", pid=2)
    assert searches.settled(other) == []
    assert searches.settled(ended) == [missed, ended]
    assert searches.settled({"lost": 3}) == [{"lost": 3}]


def test_a_parent_of_which_only_its_end_is_told() -> None:
    """A shell's own copy, for a subshell or a function in a pipeline, starts no program."""
    history = History().run(12, 10, 50, "cc", parent=11, code=1)
    ended = {"code": 1, "duration_s": 0.09, "ppid": SHELL, "session": SHELL, "comm": "bash"}
    history.events.append(Exit(sequence=99, time_ns=90 * MS, pid=11, **ended))
    [job] = history.jobs()
    assert {11, 12} <= job.pids and job.top.pid == 11


def test_a_later_process_of_the_same_number_is_no_parent() -> None:
    history = History().run(12, 10, 50, "cc", parent=11, code=1)
    history.run(11, 60, 90, "other", code=1)
    assert history.commands() == [("cc",), ("other",)]


def test_a_session_that_a_command_makes_is_of_the_command() -> None:
    for maker in ("setsid", "sudo", "python3"):
        history = History().run(11, 0, 60, maker, "make", code=2)
        history.run(12, 10, 50, "make", parent=11, session=12, code=2)
        [job] = history.jobs()
        assert job.command == (maker, "make") and {11, 12} <= job.pids


@pytest.mark.parametrize(
    ("typed", "command", "same"),
    [
        ("frobnicate --x  # why", ["frobnicate", "--x"], True),
        ("cd /x && make all | tail", ["make", "all", "|", "tail"], True),
        ("./build.sh", ["/bin/sh", "./build.sh"], True),
        ("ls -l", ["/usr/bin/gcc", "x.c"], False),
        ("", ["make"], False),
        ("echo a | cat", ["sort", "|", "uniq"], False),
    ],
)
def test_a_typed_line_is_shown_with_its_own_command(
    typed: str, command: list[str], same: bool
) -> None:
    assert _is_of(typed, command) is same
