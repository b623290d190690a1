"""Rules for file calls that failed."""

from __future__ import annotations

import os
from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import File

_CAUSES = {
    "EROFS": "fs.read_only",
    "EACCES": "fs.permission",
    "EPERM": "fs.permission",
    "ENOSPC": "fs.no_space",
    "EDQUOT": "fs.quota",
    "EMFILE": "fs.open_files_limit",
    "ENFILE": "fs.open_files_limit",
    "EFBIG": "fs.file_size_limit",
}
_WORDS = {
    "fs.read_only": (
        "the file system is read-only",
        "mount a writable file system at {folder}, or let the work write elsewhere",
    ),
    "fs.permission": (
        "its mode or owner forbids it",
        "give uid {uid} access to {path}, or run as its owner",
    ),
    "fs.no_space": ("no space is left on the file system", "make the file system larger"),
    "fs.quota": ("the disk quota is used up", "raise the quota of uid {uid}"),
    "fs.open_files_limit": ("too many files are open", "raise ulimit -n"),
    "fs.file_size_limit": ("the file size limit is reached", "raise ulimit -f"),
}


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for event in story.events:
        if isinstance(event, File) and event.errno in _CAUSES:
            yield _file(story, event)


def _file(story: Story, event: File) -> Suspect:
    cause = _CAUSES[event.errno]
    what, advice = _WORDS[cause]
    folder = os.path.dirname(event.path) or event.cwd or "/"
    return Suspect(
        cause=cause,
        event=event,
        prior=0.85,
        summary=f"{story.who(event)}: {event.syscall} {event.path} failed, {what} ({event.errno})",
        advice=advice.format(folder=folder, path=event.path, uid=event.uid),
        mentions=(event.path, os.path.basename(event.path)),
    )
