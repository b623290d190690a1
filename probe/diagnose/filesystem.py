"""Rules for file calls that failed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from probe.diagnose import faults, words
from probe.diagnose.case import Dismissal
from probe.diagnose.fallbacks import is_keepsake
from probe.diagnose.memory import size
from probe.diagnose.process import UNSEEN_MOST, is_program_path
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Exec, Exit, File, Seccomp

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
_MAKES = frozenset({"creat", "mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"})
_WORDS = {
    "fs.read_only": (
        "the file system at {folder} is read-only",
        "mount a writable file system at {folder}, or let the work write elsewhere",
    ),
    "fs.permission": (
        "{path} forbids it to uid {uid} ({mode})",
        "give uid {uid} access to {path}, or run as its owner",
    ),
    "capability.missing": (
        "the process has no {capability}",
        "grant {capability} to the sandbox, or do without {syscall}",
    ),
    "lsm.denied": (
        "its mode ({mode}), its mount and the capabilities of uid {uid} allow it, so a "
        "security module refused it",
        "allow {path} in the sandbox's policy (Landlock, AppArmor, SELinux, device cgroup)",
    ),
    "exec.noexec_mount": (
        "the file system at {folder} is mounted noexec, so no code can be mapped from it",
        "mount {folder} without noexec, or put the library elsewhere",
    ),
    "exec.permission": (
        "it may not be executed ({mode})",
        "chmod +x {path}, or start it through its interpreter",
    ),
    "fs.no_space": (
        "no space is left at {folder}{size}",
        "make the file system at {folder} larger, or clean it up",
    ),
    "fs.no_inodes": (
        "no inodes are left at {folder}",
        "give the file system at {folder} more inodes, or keep fewer files there",
    ),
    "memory.shm_full": (
        "the shared memory at {folder} is used up{size}",
        "make it larger: --shm-size, or a larger size of the tmpfs at {folder}",
    ),
    "fs.quota": ("the disk quota is used up", "raise the quota of uid {uid}"),
    "fs.open_files_limit": (
        "too many files are open (the limit is {limit})",
        "raise ulimit -n above {limit}, or close what is not needed",
    ),
    "fs.file_size_limit": (
        "the file size limit of {limit} is reached",
        "raise ulimit -f above {limit}, or write less",
    ),
}


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for event in story.worth_judging(File):
        if event.errno in _CAUSES and not _is_idle_question(story, event):
            yield _file(story, event)
    failed = (event for event in story.all(Exec) if event.errno and not event.found)
    programs = {os.path.basename(event.path) for event in failed} - story.started
    refused: dict[int, set[str]] = {}
    for event in story.all(File):
        refused.setdefault(event.pid, set()).add(os.path.basename(event.path))
    for process in story.tree.processes.values():
        suspect = _missing(story, process, programs, refused.get(process.pid, set()))
        if suspect is not None:
            yield suspect


def _missing(
    story: Story, process: Process, programs: set[str], refused: set[str]
) -> Suspect | None:
    """A file that a failing process looked for in vain, and says so.

    `programs` could not be started by anybody, `refused` not be opened or made by it.
    """
    ended = process.exit
    if ended is None or not ended.code or not process.weight or process.removes:
        return None
    if not ended.missing and not story.refused_to_make:
        return None
    said = story.words(process.pid)
    programs = programs | {
        os.path.basename(path)
        for one in story.tree.ancestors(process.pid)  # whose words are heard here as well
        for path in (one.exit.missing if one.exit else ())
        if is_program_path(path)
    }
    telling = [line for line in said.splitlines() if _tells_of_missing(line)]
    of_files = _without(said, programs)
    # What its words are called in other languages is looked for when it speaks.
    last = next((path for path in reversed(ended.missing) if not path.endswith(".mo")), "")
    for path in _likeliest_first(said, ended.missing):
        name = _name(path)
        read = ended.code != _NOT_FOUND and words.names(said, path)  # `. DIR/bin/activate`
        if "://" in path:
            continue  # an address that was tried as a path first
        if len(name) <= 2 and not _is_told(path, telling):
            continue  # such a name stands in any sentence
        if not read and (name in programs or is_program_path(path)):
            continue  # the lookup of a program, which the exec family explains
        if name in refused or _is_a_guess(said, path):
            continue  # it could not be made, which says more; or was not meant
        if _was_removed(story, ended, path):
            continue  # by the work itself
        named = any(words.names(line, one) for line in telling for one in _written(path, name))
        made = next((told for told in ended.gone if told.startswith(path + ": ")), None)
        if made is not None and f"(pid {ended.pid})" not in made:  # that one is its own affair
            return _not_persisted(story, ended, path, made, 0.9 if named else 0.7)
        if named or _alluded(of_files, path, process.name, path == last):
            in_vain = _made_in_vain(story, ended, path)
            if in_vain is not None:
                return in_vain
            return Suspect(
                cause="fs.missing",
                event=ended,
                prior=0.8 if named else 0.6,
                summary=f"{story.who(ended)} needs {path}, which is not there",
                advice=f"put {path} into the sandbox, or tell the work where it is",
                mentions=(path, name) if named else (),
                spellings=(*words.errno_spellings("ENOENT"), *words.CANNOT) if named else (),
            )
    return _told_in_vain(story, ended, telling)


def _without(said: str, programs: set[str]) -> str:
    """Without the lines that are of programs."""
    lines = said.splitlines() if programs else [said]
    return "\n".join(line for line in lines if programs.isdisjoint(_WORD.findall(line)))


_WORD = re.compile(r"[\w.+-]+")


def _is_told(path: str, telling: list[str]) -> bool:
    """Whether the whole of it is named where something is said not to be there."""
    return os.path.isabs(path) and any(words.names(line, path) for line in telling)


def _was_removed(story: Story, ended: Exit, path: str) -> bool:
    """An earlier command of the span took it away, or the folder that it lay in."""
    parts = set(path.split("/"))
    return any(
        process.end_ns < ended.time_ns and not parts.isdisjoint(process.things)
        for process in story.removers
    )


def _written(*names: str) -> list[str]:
    """As they are, and the way runtimes print what is not printable."""
    escaped = [one.encode("unicode_escape").decode() for one in names if not one.isprintable()]
    return [*names, *escaped]


def _tells_of_missing(line: str) -> bool:
    """It says that something is not there, or cannot be used."""
    told = words.says(line, "ENOENT") or words.mentions(line, words.CANNOT)
    return told and not faults.of_work(line)


def _told_in_vain(story: Story, ended: Exit, telling: list[str]) -> Suspect | None:
    """Something was to be made where there is no directory, because that was refused."""
    for line in telling:
        for told in _PATH.findall(line):
            suspect = _made_in_vain(story, ended, told)
            if suspect is not None:
                return suspect
    return None


def _name(path: str) -> str:
    return os.path.basename(path.rstrip("/"))


def _likeliest_first(said: str, missing: tuple[str, ...]) -> list[str]:
    """The one whose whole path is told, then one whose name is; of those the last."""

    def rank(path: str) -> int:
        return 0 if words.names(said, path) else 1 if words.names(said, _name(path)) else 2

    last_first = list(reversed(missing))
    return sorted(last_first, key=rank) if said else last_first


def _is_a_guess(said: str, path: str) -> bool:
    """A spelling that a program tried beside the name that it was given: a.zip, then a.zip.ZIP.

    Where the name itself was there, nobody misses its other spellings; where it was not, it
    is the one that is missed.
    """
    stem, extension = os.path.splitext(_name(path))
    return bool(extension) and "." in stem and words.names(said.replace(_name(path), ""), stem)


def _made_in_vain(story: Story, ended: Exit, path: str) -> Suspect | None:
    """What was to make the file, or the directory that it lies in, was refused before."""
    parts = set(path.split("/")[-_NEAR:])
    for event in story.refused_to_make:
        refused = _name(event.path or "")
        if len(refused) <= 1 or refused not in parts or event.time_ns >= ended.time_ns:
            continue
        if os.path.isabs(path) and os.path.isabs(event.path or "") and not _lies_in(path, event):
            continue  # a folder of the same name is another one
        if isinstance(event, File) and event.errno not in _CAUSES:
            continue
        cause = "seccomp.denied" if isinstance(event, Seccomp) else _cause(event)
        who = f"{event.comm} (pid {event.pid})"
        return Suspect(
            cause=cause,
            event=ended,
            prior=0.85,
            summary=f"{story.who(ended)} needs {path}, which is not there because "
            f"{event.syscall} {event.path} was refused to {who} ({event.errno})",
            advice=f"let {event.comm} make {event.path}: allow {event.syscall} in the sandbox's "
            "seccomp profile"
            if isinstance(event, Seccomp)
            else f"let {event.comm} make {event.path}",
            mentions=(path, _name(path)),
            spellings=(*words.errno_spellings("ENOENT"), *words.CANNOT),
            evidence=(event.id, ended.id),
        )
    return None


_NOT_FOUND = 127
_NEAR = 3  # parts of a path that are looked at, from its end


# What the C library, loaders and runtimes look for everywhere, and nobody misses.
_NOISE = re.compile(
    r"\.(so|pyc|pmc|mo)\b|/\.cache/|(^|/)\.git/|/ld\.so|/gconv|/__init__|-packages$|/selinux/|rc$|/package\.json$|/node_modules|/C[./]"
)
_PATH = re.compile(r"[^\s'\"`(]*/[^\s'\"`):,]*")
_OTHER_PATH = re.compile(r"(?<!at )(?<!in )(?<![\w.])/\w+/")  # not where the program itself lies
_COMMON_FOLDERS = frozenset(
    "share local python python3 tmp config cache system functions modules plugins scripts tools "
    "packages build users default devices files templates".split()
)
_NAME_WORTH = 5  # letters; shorter ones stand in every other line
_SHORT = 4


def _alluded(said: str, path: str, program: str, last: bool) -> bool:
    """The output does not name it, but a part of it; or says that something is not there."""
    if _NOISE.search(path) or faults.of_work(said) or path.count("/") < 2:
        return False
    telling = [line for line in said.splitlines() if words.some_fault(line)]
    parts = [part for part in path.split("/") if len(part) >= _NAME_WORTH]
    told = [part for part in parts if part not in _COMMON_FOLDERS and part != program]
    top = "/" + path.split("/")[1]
    for line in telling or said.splitlines()[-1:]:
        if top in ("/proc", "/sys") and top in _PATH.findall(line):
            return True
        # Another path has its folders in common with half of what there is.
        line = _PATH.sub(lambda found: found[0] if path.endswith(found[0]) else " ", line)
        if any(words.names(line, part) for part in told):
            return True
    return last and any(
        words.says(line, "ENOENT") and not _OTHER_PATH.search(line) for line in said.splitlines()
    )


def _not_persisted(story: Story, ended: Exit, path: str, made: str, prior: float) -> Suspect:
    by = made.removeprefix(path + ": ")
    return Suspect(
        cause="fs.not_persisted",
        event=ended,
        prior=prior,
        summary=f"{story.who(ended)} needs {path}, which is gone: it was {by}",
        advice=f"keep {os.path.dirname(path) or 'its directory'} on a volume that both see and "
        "that lasts from one step to the next",
        mentions=(path, os.path.basename(path.rstrip("/"))),
        spellings=words.errno_spellings("ENOENT"),
    )


def _lies_in(path: str, event: Seccomp | File) -> bool:
    return f"{path}/".startswith(f"{event.path}/")


def _file(story: Story, event: File) -> Suspect:
    cause = _cause(event)
    what, advice = _WORDS[cause]
    folder = event.mount or os.path.dirname(event.path) or event.cwd or "/"
    may_run = cause == "exec.permission"  # is what was asked
    fields = {
        "folder": folder,
        "path": event.obstacle or event.path,
        "uid": event.uid,
        "mode": event.mode or f"its mode or {'a noexec mount' if may_run else 'owner'}",
        "size": f" ({size(event.size)})" if event.size is not None else "",
        "limit": _limit(event),
        "syscall": event.syscall,
        "capability": "CAP_MKNOD" if event.syscall.startswith("mknod") else "CAP_CHOWN",
    }
    return Suspect(
        cause=cause,
        event=event,
        prior=_prior(event),
        summary=f"{story.who(event)}: {event.syscall} {event.path} failed, "
        f"{what.format(**fields)} ({event.errno})",
        advice=advice.format(**fields),
        mentions=(event.path, *_distinct(_name(event.path))),
        most=UNSEEN_MOST if _is_unseen(event) else 1.0,
    )


def _prior(event: File) -> float:
    if is_keepsake(os.path.join(event.cwd or "", event.path)):
        return 0.2
    return 0.6 if "access" in event.syscall else 0.85  # who asks first has a way out


def _distinct(name: str) -> tuple[str, ...]:
    """Not where it may be any word of a sentence: "list index out of range"."""
    return () if len(name) < _SHORT and name.isalpha() else (name,)


def _is_unseen(event: File) -> bool:
    """Whether it is a refusal for which nobody could look at the modes any more."""
    return event.errno in ("EACCES", "EPERM") and event.reason is None and event.mode is None


def _is_idle_question(story: Story, event: File) -> bool:
    """A look at what may not be looked at, of which nobody spoke."""
    said = story.words(event.pid)
    names = (event.path, _name(event.path))
    return "stat" in event.syscall and not any(words.names(said, name) for name in names)


def _limit(event: File) -> str:
    if event.limit is None:
        return "the kernel's limit"
    return size(event.limit) if event.errno == "EFBIG" else str(event.limit)


def _cause(event: File) -> str:
    if event.errno in ("EACCES", "EPERM") and event.reason in _WORDS:
        return event.reason
    if _is_unseen(event) and "X_OK" in (event.detail or ""):
        return "exec.permission"
    if event.errno == "EPERM" and "chown" in event.syscall:
        return "capability.missing"
    if event.errno == "ENOSPC":
        # On tmpfs a new name takes no block: it is inodes that it lacks (tmpfs(5)).
        makes_a_name = event.syscall in _MAKES or "O_CREAT" in (event.detail or "")
        if event.free_inodes == 0 or (makes_a_name and event.fstype == "tmpfs"):
            return "fs.no_inodes"
        # Without a mount the process and its namespace went before anybody could look.
        if (event.mount or event.path).startswith("/dev/shm"):
            return "memory.shm_full"
    return _CAUSES[event.errno]
