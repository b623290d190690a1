"""The spool: whatever happens to process, disk or bytes, an item is sent or its loss told."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe import spool
from probe.queue import LOSS_SEQUENCES, UNREADABLE, Entry, Queue
from probe.spool import Spool
from probe.wire import stream_pb2 as wire

HELLO = wire.Hello(sandbox="s1", boot="b1")
PLENTY = 1 << 20


def opened(folder: str | Path, hello: wire.Hello = HELLO, **options: int) -> Spool:
    return Spool(folder, hello, Queue(PLENTY, 1 << 30), **options)


def entry(sequence: int, span: int = 0, text: str = "") -> Entry:
    event = wire.Event(sequence=sequence, span=span, count=1, exit=wire.Exit(last_words=text))
    return Entry(sequence, wire.Item(sequence=sequence, event=event).SerializeToString())


def abandon(one: Spool) -> None:
    """As kill -9 leaves it: nothing is written any more, and the lock is free."""
    one.descriptors = lambda: []  # type: ignore[method-assign]
    one.close()


def everything(one: Spool) -> list[int]:
    """The numbers of all that waits, in the order in which it is sent."""
    taken: list[int] = []
    while entries := one.take(100, 1 << 20):
        taken += [each.sequence for each in entries]
        one.acknowledge(entries[-1].sequence)
    return taken


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 512)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "take", "acknowledge", "rewind", "kill"]), st.integers(1, 30)
    ),
    max_size=40,
)


@settings(deadline=None)
@given(OPERATIONS)
def test_each_item_is_sent_in_order_until_it_is_acknowledged(
    operations: list[tuple[str, int]],
) -> None:
    numbers, waiting, sent = itertools.count(1), list[int](), list[int]()
    with tempfile.TemporaryDirectory() as folder:
        one = opened(folder, size_max=1 << 20)
        for name, amount in operations:
            if name == "append":
                for number in itertools.islice(numbers, amount):
                    one.append(entry(number))
                    waiting.append(number)
            elif name == "take":
                taken = [each.sequence for each in one.take(amount, 1 << 20)]
                assert taken == waiting[: len(taken)] and (taken or not waiting)
                sent, waiting = sent + taken, waiting[len(taken) :]
            elif name == "acknowledge" and sent:
                number = sent[min(amount, len(sent)) - 1]
                one.acknowledge(number)
                sent = [each for each in sent if each > number]
            elif name in ("rewind", "kill"):
                if name == "kill":
                    abandon(one)
                    one = opened(folder, size_max=1 << 20)
                one.rewind()
                waiting, sent = sent + waiting, []
            assert (one.waiting, one.sent) == (len(waiting), len(sent))
            assert one.first_waiting == (waiting[0] if waiting else 0)
        one.rewind()
        assert everything(one) == sent + waiting
        assert not list(Path(folder).glob("*.segment"))[1:]
        assert one.losses.total == 0
        one.close()


def test_power_may_fail_at_any_byte(tmp_path: Path) -> None:
    """A file is cut anywhere: what is whole before the cut is sent, the rest is told."""
    whole = tmp_path / "whole"
    one = opened(whole)
    ends = []
    for number in range(1, 6):
        one.append(entry(number))
        ends.append(one.size)
    one.close()
    [segment] = whole.glob("*.segment")
    content = segment.read_bytes()
    for cut in range(len(content) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / segment.name).write_bytes(content[:cut])
        again = opened(folder)
        kept = sum(end <= cut for end in ends)
        clean = cut == 0 or cut in (one._segments[0].done, *ends)
        assert again.losses.by_sense == ({} if clean else {UNREADABLE: 1})
        again.append(entry(100))
        assert everything(again) == [*range(1, kept + 1), 100]
        again.close()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bytes_may_rot(data: st.DataObject) -> None:
    """Nothing is sent that was not put in, and nothing vanishes without a word."""
    put = {number: entry(number, text="x" * 40) for number in range(1, 21)}
    with tempfile.TemporaryDirectory() as folder:
        one = opened(folder)
        for each in put.values():
            one.append(each)
        if data.draw(st.booleans()):
            abandon(one)
        files = sorted(Path(folder).iterdir())
        for _ in range(data.draw(st.integers(1, 4))):
            file = data.draw(st.sampled_from(files))
            content = bytearray(file.read_bytes())
            for _ in range(data.draw(st.integers(1, 8))):
                if content:
                    place = data.draw(st.integers(0, len(content) - 1))
                    content[place] = data.draw(st.integers(0, 255))
            file.write_bytes(content)
        one = one if one._lock is not None else opened(folder)
        sent: list[Entry] = []
        while entries := one.take(7, 1 << 20):
            sent += entries
            one.acknowledge(entries[-1].sequence)
        assert all(put[each.sequence] == each for each in sent)
        assert len(sent) == len(put) or one.losses.by_sense[UNREADABLE] > 0
        one.close()


def test_a_rotten_cursor_costs_repeats_and_no_item(tmp_path: Path) -> None:
    one = opened(tmp_path)
    for number in range(1, 4):
        one.append(entry(number))
    one.take(1, 1)
    one.acknowledge(1)
    abandon(one)
    cursor = tmp_path / "acknowledged"
    cursor.write_bytes(cursor.read_bytes().replace(b" 1 ", b" 3 "))
    assert everything(opened(tmp_path)) == [1, 2, 3]


def test_what_an_earlier_boot_left_is_sent_as_its_own(tmp_path: Path) -> None:
    earlier = opened(tmp_path, wire.Hello(sandbox="s1", boot="b0"))
    for number in range(1001, 1004):  # a clock that counted further than ours
        earlier.append(entry(number))
    abandon(earlier)
    one = opened(tmp_path)
    one.append(entry(1))
    assert wire.Hello.FromString(one.hello).boot == "b0"
    assert [each.sequence for each in one.take(10, 1 << 20)] == [1001, 1002, 1003]
    assert one.take(10, 1 << 20) == []  # another stream's
    one.acknowledge(1003)
    assert wire.Hello.FromString(one.hello).boot == "b1"
    assert everything(one) == [1]
    one.close()


def test_a_new_boot_whose_numbers_begin_again_loses_nothing(tmp_path: Path) -> None:
    earlier = opened(tmp_path, wire.Hello(sandbox="s1", boot="b0"))
    earlier.append(entry(1000))
    assert everything(earlier) == [1000]
    earlier.close()
    one = opened(tmp_path)
    one.append(entry(1))
    abandon(one)
    assert everything(opened(tmp_path)) == [1]


def told(one: Spool) -> tuple[list[int], Counter[tuple[int, str]]]:
    """What is sent, and the losses that are told with it."""
    numbers, lost = list[int](), Counter[tuple[int, str]]()
    while entries := one.take(100, 1 << 20):
        for each in entries:
            item = wire.Item.FromString(each.data)
            if item.event.sequence >= LOSS_SEQUENCES:
                lost[item.event.span, item.event.loss.sense] += item.event.count
            else:
                numbers.append(each.sequence)
        one.acknowledge(entries[-1].sequence)
    return numbers, lost


@pytest.mark.parametrize("killed", [False, True])
def test_what_has_no_room_is_told_by_span_and_sense(tmp_path: Path, killed: bool) -> None:
    one = opened(tmp_path, size_max=1)  # four segments, the least
    for number in range(1, 2001):
        one.append(entry(number, span=1 + number % 2))
        assert one.size <= 4 * 512 + 1024
    if killed:
        abandon(one)
        one = opened(tmp_path, size_max=1)
        assert one.losses.total == 0
    numbers, lost = told(one)
    assert numbers == list(range(numbers[0], 2001))
    before = {span: sum(1 for n in range(1, numbers[0]) if n % 2 == span - 1) for span in (1, 2)}
    untold = Counter({(span, sense): count for span, sense, count in one.untold()})
    if killed:  # only of so old losses that even they had no room
        assert lost.keys() <= {(1, "exec"), (2, "exec")}
        return
    assert lost + untold == Counter({(span, "exec"): count for span, count in before.items()})
    one.close()


def test_what_is_too_old_is_told(tmp_path: Path) -> None:
    one = Spool(tmp_path, HELLO, Queue(PLENTY, PLENTY), age_max_s=3600)
    for number in range(1, 31):
        one.append(entry(number, span=7))
    old = one._segments[:-1]
    for segment in old:
        segment.written_at -= 3601
    one.expire()
    numbers, lost = told(one)
    assert lost == {(7, "exec"): numbers[0] - 1}
    assert numbers == list(range(numbers[0], 31)) and len(numbers) < 30
    one.close()


def test_what_is_under_way_is_not_given_up(tmp_path: Path) -> None:
    one = opened(tmp_path, size_max=1)
    for number in range(1, 11):
        one.append(entry(number))
    sent = [each.sequence for each in one.take(3, 1 << 20)]
    for number in range(11, 501):
        one.append(entry(number))
    one.rewind()
    assert [each.sequence for each in one.take(3, 1 << 20)] == sent == [1, 2, 3]
    one.close()


@contextlib.contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder])
    if mounted.returncode:
        pytest.skip("mounting takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_leaves_memory_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "RETRY_S", 0.0)
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 4096)
    with tmpfs(tmp_path / "full", "64k") as folder:
        one = opened(folder / "spool")
        ballast = folder / "ballast"
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(44 << 10))
        for number in range(1, 1001):
            one.append(entry(number))
        assert one.obstacle is not None and "No space left" in one.obstacle
        taken = [each.sequence for each in one.take(100, 1 << 20)]
        ballast.unlink()
        for number in range(1001, 1101):
            one.append(entry(number))
        one.rewind()
        assert taken == list(range(1, 101))
        assert everything(one) == list(range(1, 1101))
        assert one.losses.total == 0
        one.close()


@pytest.mark.parametrize("kind", ["file", "read-only", "in use"])
def test_a_folder_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    folder, other = tmp_path / "spool", None
    if kind == "file":
        folder.write_text("")
    elif kind == "read-only":
        folder = Path("/proc/spool")
    else:
        other = opened(folder)
    one = opened(folder)
    assert one.obstacle is not None and str(folder) in one.obstacle
    for number in range(1, 11):
        one.append(entry(number))
    assert everything(one) == list(range(1, 11))
    one.close()
    if other is not None:
        other.close()


def test_a_folder_that_vanishes_costs_what_was_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    one = opened(folder)
    for number in range(1, 101):
        one.append(entry(number))
    shutil.rmtree(folder)
    sent = everything(one)
    assert sent == [] and one.losses.by_sense[UNREADABLE] > 0
    one.append(entry(101))
    assert len(one) == 1
    one.close()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "x.segment").write_text("mine")
    (tmp_path / "000000000009.segment").write_bytes(b"not ours")
    one = opened(tmp_path)
    assert one.losses.by_sense == {UNREADABLE: 1}
    assert everything(one) == []
    one.close()
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "x.segment").read_text() == "mine"
