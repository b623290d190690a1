"""What waits for an acknowledgement, on disk: it survives the probe, and the power of the machine.

A folder of segments: files that are only ever appended to. Each begins with the
Hello of the (sandbox, boot) that its items belong to, so what an earlier boot left
is still sent as what it is. Hello and items are framed by length and CRC-32; a
segment ends at its first bad frame. `acknowledged` names the place up to which the
collector has everything; it is replaced by rename(2), and when it is older than the
truth some items are sent twice, which the collector does not mind.

A put item is in the kernel's hands, so a killed probe loses none. What a power cut
can cost is what came after the last fsync(2): there is one a second, and one at the
end of each segment.

When the folder is full (by the size that it may have, or the age of what is in it)
the oldest segment is replaced, in one rename(2), by one that tells only what is lost
with it. When the disk takes nothing, items wait in memory, and `obstacle` says why.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from probe.coverage import Losses
from probe.queue import UNREADABLE, Entry, Lost, Queue, loss_item, lost_with

if TYPE_CHECKING:
    from probe.wire import stream_pb2 as wire

DEFAULT_FOLDER = "/var/lib/probe/spool"
SIZE_MAX = 64 << 20  # bytes, of all segments together
AGE_MAX_S = 24 * 3600.0
SEGMENT_BYTES = 1 << 20
RETRY_S = 5.0  # between attempts to write where the disk took nothing
SEGMENT_MAX = SEGMENT_BYTES + (4 << 20)  # with an item at its end, however large
LOSSES_MAX = 256  # spans and senses that a segment of losses keeps apart

_MAGIC = b"PROBESP1"
_FRAME = struct.Struct("<IIQ")  # length of the content; CRC-32 of number and content; number
_NUMBER = struct.Struct("<Q")
_SUFFIX = ".segment"
_CURSOR = "acknowledged"


class Segment:
    """One file. Offsets: up to `done` it is acknowledged, up to `read` it was taken to be sent."""

    def __init__(self, path: Path, hello: bytes, size: int) -> None:
        self.path = path
        self.number = int(path.stem)
        self.hello = hello
        self.size = size
        self.read = self.done = len(_MAGIC) + _FRAME.size + len(hello)
        self.done_sequence = 0
        self.waiting = 0  # items behind `read`
        self.written_at = _now()
        self.tells_losses = False

    @property
    def complete(self) -> bool:
        return self.done >= self.size

    def entries(self, start: int) -> Iterator[tuple[int, Entry]]:
        """Each good one from `start` on, with the offset behind it."""
        with self.path.open("rb") as file:
            file.seek(start)
            data = file.read(self.size - start)
        for end, entry in entries(data):
            yield start + end, entry


def entries(data: bytes) -> Iterator[tuple[int, Entry]]:
    """Those framed in `data`, with the offset behind each, up to the first that is not whole."""
    offset = 0
    while offset + _FRAME.size <= len(data):
        length, checksum, sequence = _FRAME.unpack_from(data, offset)
        content = data[offset + _FRAME.size : offset + _FRAME.size + length]
        if len(content) < length or _checksum(sequence, content) != checksum:
            return
        offset += _FRAME.size + length
        yield offset, Entry(sequence, content)


def framed(entry: Entry) -> bytes:
    checksum = _checksum(entry.sequence, entry.data)
    return _FRAME.pack(len(entry.data), checksum, entry.sequence) + entry.data


def _checksum(sequence: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(_NUMBER.pack(sequence)))


class Spool:
    """A Queue with a folder; without one, in memory alone. For one thread at a time."""

    def __init__(
        self,
        folder: str | Path | None,
        hello: wire.Hello,
        memory: Queue,
        *,
        size_max: int = SIZE_MAX,
        age_max_s: float = AGE_MAX_S,
    ) -> None:
        """Takes up what an earlier process left. Never raises for what the disk does."""
        self._folder = None if folder is None else Path(folder)
        self._hello = hello.SerializeToString(deterministic=True)
        self._memory = memory  # what the disk does not take
        self._size_max, self._age_max_s = max(size_max, 4 * SEGMENT_BYTES), age_max_s
        self._segments: list[Segment] = []
        self._sent: deque[tuple[Segment, int, Entry]] = deque()
        self._lock: int | None = None
        self._active: int | None = None  # the descriptor of the last segment
        self._unsynced: list[int] = []  # those of segments that are written to no more
        self._next_number = 1
        self._retry_at = 0.0
        self.obstacle: str | None = None  # why the disk takes nothing
        with self._coping():
            self._open()

    def __len__(self) -> int:
        return self.waiting + self.sent

    @property
    def waiting(self) -> int:
        return sum(segment.waiting for segment in self._segments) + self._memory.waiting

    @property
    def sent(self) -> int:
        return len(self._sent) + self._memory.sent

    @property
    def last_sent(self) -> int:
        return max(self._sent[-1][2].sequence if self._sent else 0, self._memory.last_sent)

    @property
    def first_waiting(self) -> int:
        for segment in self._segments:
            for _, entry in self._read(segment):
                return entry.sequence
        return self._memory.first_waiting

    @property
    def losses(self) -> Losses:
        return self._memory.losses

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    @property
    def hello(self) -> bytes:
        """What a stream begins with that is to carry the next items."""
        for segment in self._segments:
            if not segment.complete:
                return segment.hello
        return self._hello

    def append(self, entry: Entry) -> None:
        """Its sequence is above all before it of this boot."""
        if self._folder and self._memory.waiting and time.monotonic() >= self._retry_at:
            self._return_to_disk()
        if self._folder and not self._memory.waiting and time.monotonic() >= self._retry_at:
            with self._coping():
                self._write(entry)
                return
        self._memory.append(entry)

    def take(self, items: int, size: int) -> list[Entry]:
        """The next entries to send, all of one (sandbox, boot)."""
        return self._take_from_disk(items, size) or self._memory.take(items, size)

    def acknowledge(self, sequence: int) -> None:
        """Forgets what was sent up to `sequence`."""
        self._memory.acknowledge(sequence)
        moved = False
        while self._sent and self._sent[0][2].sequence <= sequence:
            segment, end, entry = self._sent.popleft()
            segment.done, segment.done_sequence = end, entry.sequence
            moved = True
        if moved:
            self._settle()

    def rewind(self) -> None:
        """What was sent and not acknowledged waits again."""
        for segment, _, _ in self._sent:
            segment.waiting += 1
        self._sent.clear()
        for segment in self._segments:
            segment.read = segment.done
        self._memory.rewind()

    def lose_sent(self) -> None:
        """Gives up what is under way."""
        items = [entry.data for _, _, entry in self._sent]
        self._memory.count_lost(lost_with(items))
        for segment, end, entry in self._sent:
            segment.done, segment.done_sequence = end, entry.sequence
        self._sent.clear()
        self._settle()
        self._memory.lose_sent()

    def count_lost(self, lost: Lost) -> None:
        self._memory.count_lost(lost)

    def untold(self) -> list[tuple[int, str, int]]:
        return self._memory.untold()

    def expire(self) -> None:
        """Gives up what is older than it may be."""
        limit = _now() - self._age_max_s
        for segment in list(self._segments[:-1]):
            if segment.written_at < limit and not segment.tells_losses:
                with self._coping():
                    self._give_up(segment)

    def descriptors(self) -> list[int]:
        """Of what is to be synced: copies, which the caller closes."""
        if self._folder is None:
            return []
        with self._coping():
            handed, self._unsynced = self._unsynced, []
            if self._active is not None:
                handed.append(os.dup(self._active))
            if handed:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                handed.append(os.open(self._folder, flags))
            return handed
        return []

    def close(self) -> None:
        sync(self.descriptors())
        for descriptor in (self._active, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._active = self._lock = None

    # Reading

    def _take_from_disk(self, items: int, size: int) -> list[Entry]:
        """Nothing that is younger than what waits in memory."""
        taken: list[Entry] = []
        for segment in list(self._segments):
            if self._sent and self._sent[0][0].hello != segment.hello:
                break
            for end, entry in self._read(segment):
                size -= len(entry.data)
                if (taken and size < 0) or len(taken) >= items or self._is_late(segment, entry):
                    return taken
                taken.append(entry)
                segment.read = end
                segment.waiting -= 1
                self._sent.append((segment, end, entry))
            if taken:
                break
        return taken

    def _is_late(self, segment: Segment, entry: Entry) -> bool:
        """Memory holds older ones, from a time when the disk took nothing."""
        first = self._memory.first_waiting
        return 0 < first < entry.sequence and segment.hello == self._hello

    def _read(self, segment: Segment) -> Iterator[tuple[int, Entry]]:
        """What waits in a segment; what has rotted there is given up."""
        if not segment.waiting:
            return
        found = False
        try:
            for end, entry in segment.entries(segment.read):
                found = True
                yield end, entry
        except FileNotFoundError:
            pass
        except OSError as error:
            self._note(error)
            return
        if not found:
            self._memory.count_lost(Counter({(0, UNREADABLE): 1}))
            if segment is self._segments[-1]:
                self._seal()
            segment.waiting, segment.size = 0, segment.read
            self._settle()

    # Writing

    def _write(self, entry: Entry) -> None:
        if self._lock is None:
            self._open()
        if self._active is None or self._segments[-1].size >= SEGMENT_BYTES:
            self._begin_segment()
            self._make_room()
        assert self._active is not None
        segment = self._segments[-1]
        _write_whole(self._active, framed(entry), segment.size)
        segment.size += _FRAME.size + len(entry.data)
        segment.waiting += 1
        segment.written_at = _now()
        self.obstacle = None

    def _return_to_disk(self) -> None:
        while self._memory.waiting:
            entry = self._memory.withdraw()
            written = False
            with self._coping():
                self._write(entry)
                written = True
            if not written:
                self._memory.restore(entry)
                return

    def _begin_segment(self) -> None:
        self._seal()
        assert self._folder is not None
        path = self._folder / f"{self._next_number:012d}{_SUFFIX}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        head = _MAGIC + framed(Entry(0, self._hello))
        try:
            _write_whole(descriptor, head, 0)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        self._active = descriptor
        self._next_number += 1
        self._segments.append(Segment(path, self._hello, len(head)))

    def _seal(self) -> None:
        """Nothing more is written to the last segment."""
        if self._active is not None:
            self._unsynced.append(self._active)
            self._active = None

    def _settle(self) -> None:
        """Removes what is done with, and writes down how far that is."""
        active = self._segments[-1] if self._active is not None else None
        while self._segments and self._segments[0].complete and self._segments[0] is not active:
            with self._coping():
                self._segments[0].path.unlink(missing_ok=True)
            del self._segments[0]
        if not self._segments or self._folder is None:
            return
        head = self._segments[0]
        with contextlib.suppress(OSError):
            fresh = self._folder / f"{_CURSOR}.new"
            fresh.write_bytes(_cursor_text(head.number, head.done_sequence))
            fresh.replace(self._folder / _CURSOR)

    # Giving up

    def _make_room(self) -> None:
        while self.size + SEGMENT_BYTES > self._size_max:
            under_way = {id(segment) for segment, _, _ in self._sent}
            idle = [one for one in self._segments[:-1] if id(one) not in under_way]
            victims = [one for one in idle if not one.tells_losses] or idle
            if not victims:
                return
            self._give_up(victims[0])

    def _give_up(self, segment: Segment) -> None:
        """A segment that is not under way and not written to."""
        waiting = [entry for _, entry in self._read(segment)]
        if segment not in self._segments:  # it had rotted
            return
        lost = lost_with([entry.data for entry in waiting])
        place = self._segments.index(segment)
        if segment.tells_losses:  # a disk full of losses: only we still know of them
            self._memory.count_lost(lost)
            segment.path.unlink(missing_ok=True)
            del self._segments[place]
            return
        told = [
            loss_item(entry.sequence, span, sense, count, "spool")
            for entry, ((span, sense), count) in zip(
                waiting, sorted(_few(lost).items()), strict=False
            )
        ]
        content = _MAGIC + framed(Entry(0, segment.hello))
        content += b"".join(framed(Entry(one.sequence, one.SerializeToString())) for one in told)
        fresh = segment.path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(segment.path)
        self._memory.count_lost(lost, told=True)
        instead = Segment(segment.path, segment.hello, len(content))
        instead.waiting, instead.tells_losses = len(told), True
        self._segments[place] = instead

    # Taking up what is there

    def _open(self) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise OSError("another process uses it") from None
        self._lock = lock
        number, acknowledged = self._cursor(self._folder)
        self._next_number = number + 1  # even where its segment is gone, for the cursor names it
        for path in sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.name):
            if path.stem.isascii() and path.stem.isdecimal():
                self._next_number = max(self._next_number, int(path.stem) + 1)
                with self._coping():
                    self._take_up(path, acknowledged if int(path.stem) == number else 0)

    @staticmethod
    def _cursor(folder: Path) -> tuple[int, int]:
        try:
            text = (folder / _CURSOR).read_bytes()
            number, sequence = (int(word) for word in text.split()[:2])
        except (OSError, ValueError):
            return 0, 0
        return (number, sequence) if text == _cursor_text(number, sequence) else (0, 0)

    def _take_up(self, path: Path, acknowledged: int) -> None:
        """A segment of an earlier process, up to its first bad frame."""
        size = path.stat().st_size
        data = path.read_bytes() if size <= SEGMENT_MAX else b""
        segment = _segment(path, data, acknowledged)
        if size > (segment.size if segment else 0):  # torn, or not ours
            self._memory.count_lost(Counter({(0, UNREADABLE): 1}))
        if segment is None or segment.complete:
            path.unlink()
            return
        if segment.size < size:
            os.truncate(path, segment.size)
        age_s = max(0.0, time.time() - path.stat().st_mtime)
        if segment.hello == self._hello:  # of this boot, whatever the clock was set to since
            age_s = min(age_s, _now())
        segment.written_at = _now() - age_s
        self._segments.append(segment)

    @contextlib.contextmanager
    def _coping(self) -> Iterator[None]:
        """What the disk refuses is remembered, and tried again later."""
        try:
            yield
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        self.obstacle = f"{self._folder}: {error.strerror or error}"
        self._retry_at = time.monotonic() + RETRY_S


def _segment(path: Path, data: bytes, acknowledged: int) -> Segment | None:
    """What `data`, the content of a file, holds; None where it does not begin like a segment."""
    from google.protobuf.message import DecodeError

    from probe.wire import stream_pb2 as wire

    if not data.startswith(_MAGIC):
        return None
    read = entries(data[len(_MAGIC) :])
    end, head = next(read, (0, Entry(0, b"")))
    try:
        if not wire.Hello.FromString(head.data).sandbox:
            return None
    except DecodeError:
        return None
    segment = Segment(path, head.data, len(_MAGIC) + end)
    for end, entry in read:
        segment.size = len(_MAGIC) + end
        if entry.sequence <= acknowledged:
            segment.read = segment.done = segment.size
            segment.done_sequence = entry.sequence
        else:
            segment.waiting += 1
    return segment


def sync(descriptors: list[int]) -> None:
    """fsync(2), which may take long, and an end to each descriptor."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
        os.close(descriptor)


def _write_whole(descriptor: int, data: bytes, size: int) -> None:
    """At the end of a file of `size`, which it has again where the disk takes only a part."""
    try:
        written = os.write(descriptor, data)
        if written < len(data):
            raise OSError("No space left on device")
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _now() -> float:
    """Seconds that no setting of the clock changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _cursor_text(number: int, sequence: int) -> bytes:
    text = f"{number} {sequence} "
    return f"{text}{zlib.crc32(text.encode()):08x}\n".encode()


def _few(lost: Lost) -> Lost:
    """By sense alone, where there are too many spans to tell them apart."""
    if len(lost) <= LOSSES_MAX:
        return lost
    by_sense: Lost = Counter()
    for (_, sense), count in lost.items():
        by_sense[0, sense] += count
    return by_sense
