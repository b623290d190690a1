"""Rules for programs that could not be started and processes that could not be created."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from probe.diagnose import faults, words
from probe.diagnose.case import Dismissal
from probe.diagnose.products import SHELLS
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Exec, Exit, Fork, Seccomp

_BY_ERRNO = {
    "ENOENT": "exec.not_found",
    "ENOTDIR": "exec.not_found",
    "EACCES": "exec.permission",
    "EPERM": "exec.permission",
    "ENOEXEC": "exec.bad_format",
    "E2BIG": "exec.args_too_long",
    "ENOMEM": "fork.no_memory",
}
_NOT_FOUND = 127
_COMM = 15  # bytes that the kernel keeps of a program's name
_SLACK = 2  # some may have ended between the refusal and the count
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "games", "libexec", "shims", "git-core"})
_NOT_EXECUTABLE = 126
_SHELLS = SHELLS | {"busybox"}
_ASKING = _SHELLS | {"which"}
_NOT_FOUND_BEFORE = re.compile(r"(?i)(could not|cannot|can't|unable to|failed to) (find|locate)\b")
_NAME_BELOW = re.compile(r":\s*\n\s*(?=\S+$)", re.MULTILINE)  # as CMake sets names apart
_NOT_THERE = re.compile(r"^[\\'\"’`]*(: |,| ).*?(not found|[Nn]o such file|is not a|not installed)")


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for event in story.worth_judging(Exec, unless=lambda event: event.errno is None):
        judged = _exec(story, event)
        if judged is not None:
            yield judged
    for failed in story.worth_judging(Fork):
        yield _fork(story, failed)
    for process in story.tree.processes.values():
        suspect = _looked_up_in_vain(story, process)
        if suspect is not None:
            yield suspect


def _exec(story: Story, event: Exec) -> Suspect | Dismissal | None:
    if event.found or _became_it(story, event):
        return None  # a search on PATH that found it further on
    instead = story.started_later(event)
    if instead is not None:
        return Dismissal(event.id, f"{instead.path} was started in its place")
    foreign = event.reason == "exec.wrong_architecture"  # no script, whoever reads it as one
    if event.errno == "ENOEXEC" and not foreign and _ran_it_as_a_script(story, event):
        return Dismissal(event.id, "the shell read the file itself and went on")
    refused_chmod = _refused_chmod(story, event) if event.errno == "EACCES" else None
    if refused_chmod is not None:
        return _without_its_bit(story, event, refused_chmod)
    cause = _BY_ERRNO.get(event.errno or "", "exec.permission")
    if event.reason in _EXEC_WORDS:  # reports may come from anywhere
        cause = event.reason
    name = os.path.basename(event.path)
    what, advice = _EXEC_WORDS[cause](event)
    return Suspect(
        cause=cause,
        event=event,
        prior=0.9,
        summary=f"{story.who(event)} could not start {event.path.rstrip()}: {what}",
        advice=advice,
        mentions=(event.path, name, *([event.detail] if event.detail else [])),
        most=UNSEEN_MOST if cause == "exec.permission" and event.reason is None else 1.0,
    )


UNSEEN_MOST = 0.7  # where the sandbox went before its modes and mounts could be looked at


def _became_it(story: Story, event: Exec) -> bool:
    """It ended by the program's name, though its start was lost on the way."""
    ended = story.process(event).exit
    name = os.path.basename(event.path)[:_COMM]
    return event.errno == "ENOENT" and ended is not None and ended.comm == name != event.comm


def _ran_it_as_a_script(story: Story, event: Exec) -> bool:
    """execvp(3) and shells hand a file without a format to sh; 126 says that they did not."""
    said = story.words(event.pid).lower()
    process = story.process(event)
    caller = story.tree.process(process.parent).name
    if process.only_tried_to_start and caller not in _SHELLS:
        return False
    return process.status != _NOT_EXECUTABLE and "format" not in said


def _refused_chmod(story: Story, event: Exec) -> Seccomp | None:
    """A filter kept the execute bit from this file, and nobody minded at the time."""
    name = os.path.basename(event.path)
    for other in story.all(Seccomp):
        if (
            other.syscall in ("chmod", "fchmod", "fchmodat", "fchmodat2")
            and other.time_ns < event.time_ns
            and os.path.basename(other.path or "") in ("", name)
        ):
            return other
    return None


def _without_its_bit(story: Story, event: Exec, denial: Seccomp) -> Suspect:
    return Suspect(
        cause="seccomp.denied",
        event=event,
        prior=0.85,
        summary=f"{story.who(event)} could not start {event.path}: it has no execute bit, "
        f"because the seccomp filter had refused {denial.syscall} to {denial.comm}",
        advice=f"allow {denial.syscall} in the sandbox's seccomp profile: "
        f'{{"names": ["{denial.syscall}"], "action": "SCMP_ACT_ALLOW"}}',
        mentions=(event.path, os.path.basename(event.path)),
        evidence=(denial.id, event.id),
    )


def _not_found(event: Exec) -> tuple[str, str]:
    name = os.path.basename(event.path)
    if event.searched:
        return (
            f"there is no {name} in {', '.join(event.searched)}",
            f"install {name} in the sandbox image, or add its directory to PATH",
        )
    detail = f" ({event.detail})" if event.detail else ""
    return f"it does not exist{detail}", f"put {event.path} into the sandbox image"


def _permission(event: Exec) -> tuple[str, str]:
    if event.reason is None:
        return (
            "permission denied; its mode and its mount had gone before they could be looked at",
            f"chmod +x {event.path}; if it has the bit, mount its file system without noexec",
        )
    return (
        f"{event.detail or 'permission denied'}, uid {event.uid}",
        f"chmod +x {event.path}, or start it through its interpreter",
    )


def _noexec(event: Exec) -> tuple[str, str]:
    where = event.detail or os.path.dirname(event.path)
    return (
        f"the file system at {where} is mounted noexec",
        f"mount {where} without noexec, or put the program elsewhere",
    )


def _policy(event: Exec) -> tuple[str, str]:
    return (
        f"{event.detail}, so a security module refused it ({event.errno})",
        f"allow {event.path} to be executed in the sandbox's policy (Landlock, AppArmor, SELinux)",
    )


def _interpreter(event: Exec) -> tuple[str, str]:
    return (
        f"the script is there, its interpreter {event.detail} is not",
        f"install {event.detail} in the sandbox image, or mend the first line of {event.path}",
    )


def _crlf(event: Exec) -> tuple[str, str]:
    return (
        f"the first line of {_script(event)} ends in CR (a file with Windows line ends)",
        f"convert it: sed -i 's/\\r$//' {_script(event)}",
    )


def _script(event: Exec) -> str:
    """`#!/usr/bin/env NAME` with a CR makes env look for a program of that name."""
    if event.path.endswith("\r") and len(event.argv) > 1:
        return event.argv[1]
    return event.path


def _loader(event: Exec) -> tuple[str, str]:
    return (
        f"the program is there, its loader {event.detail} is not",
        f"use a build for this image's libc, or install {event.detail}",
    )


def _architecture(event: Exec) -> tuple[str, str]:
    return f"wrong architecture, {event.detail}", "install the build for this machine"


def _format(event: Exec) -> tuple[str, str]:
    return (
        f"it is neither an ELF program nor a script with #! ({event.detail})",
        "add a #! line, or fetch the file again if it was cut",
    )


def _too_long(event: Exec) -> tuple[str, str]:
    limit = f"; {event.detail}, the limit is {event.limit} bytes" if event.limit else ""
    return (
        f"the arguments and the environment are too long (E2BIG{limit})",
        "pass them in a file or through xargs",
    )


def _no_memory(event: Exec) -> tuple[str, str]:
    return "no memory (ENOMEM)", "give the sandbox more memory"


_EXEC_WORDS = {
    "exec.not_found": _not_found,
    "exec.permission": _permission,
    "exec.noexec_mount": _noexec,
    "exec.interpreter_missing": _interpreter,
    "exec.crlf_shebang": _crlf,
    "exec.loader_missing": _loader,
    "exec.wrong_architecture": _architecture,
    "exec.bad_format": _format,
    "exec.args_too_long": _too_long,
    "fork.no_memory": _no_memory,
    "lsm.denied": _policy,
}


def _fork(story: Story, event: Fork) -> Suspect | Dismissal:
    last_ns = max(other.time_ns for other in story.all(Fork) if other.pid == event.pid)
    got_one = any(
        child.parent == event.pid and child.born_ns > last_ns
        for child in story.tree.processes.values()
    )
    if got_one and not words.says(story.words(event.pid), event.errno):
        return Dismissal(event.id, f"{story.who(event)} tried again and got a process")
    who = story.who(event)
    if event.without_init:
        cause, why = "fork.no_memory", "the first process of its pid namespace has ended"
        advice = "keep that process alive: unshare --fork, or an init such as tini"
    elif event.errno == "ENOMEM":
        cause, why, advice = "fork.no_memory", "no memory", "give the sandbox more memory"
    elif event.pids_max is not None:
        cause = "fork.pids_limit"
        why = f"the cgroup {event.cgroup} holds {event.pids_current} of {event.pids_max} processes"
        advice = f"raise pids.max of {event.cgroup} above {event.pids_max}, or start fewer at once"
    else:
        cause = "fork.process_limit"
        why, advice = _process_limit(event)
    return Suspect(
        cause=cause,
        event=event,
        prior=0.9,
        summary=f"{who} could not create a process ({event.errno}): {why}",
        advice=advice,
        mentions=("fork", "thread", "process"),
    )


def _process_limit(event: Fork) -> tuple[str, str]:
    fewer = "or start fewer at once"
    for count, limit, name in (
        (event.tasks_of_user, event.nproc_limit, "ulimit -u (RLIMIT_NPROC)"),
        (event.tasks, event.threads_max, "kernel.threads-max"),
        (event.tasks, event.pid_max, "kernel.pid_max"),
    ):
        if count is not None and limit is not None and count + _SLACK >= limit:
            return f"{count} run, and {name} is {limit}", f"raise {name} above {limit}, {fewer}"
    return "a limit on processes is reached", f"raise ulimit -u for this user, {fewer}"


def _looked_up_in_vain(story: Story, process: Process) -> Suspect | None:
    """A shell finds out by stat(2) that a program is nowhere, and never calls execve."""
    ended = process.exit
    if ended is None or not process.failed or not process.weight:
        return None
    program = process.program_at(ended.time_ns)
    started_ns = program.time_ns if program else 0
    if any(failed.time_ns > started_ns for failed in process.refused):
        return None  # it was not by stat that it found out
    above = story.tree.processes.get(process.parent)
    missing = ended.missing
    if not process.programs and above is not None and above.exit is not None:
        missing += above.exit.missing  # a shell looks it up before it forks
    if not missing:
        return None
    said = story.words(process.pid)
    programs = {one.name for one in story.tree.ancestors(process.pid)} | {ended.comm}
    programs |= story.started
    own_failure = any(
        child.failed and child.status != _NOT_FOUND and child.weight >= 0.5 * process.weight
        for child in story.tree.children(process.pid)
    )
    asks = ended.comm in _SHELLS or process.name in _ASKING
    quiet = not story.own_words(process.pid).strip()
    asked = asks and quiet and not _has_failed_children(story, process)
    reported = ended.code == _NOT_FOUND or any(
        child.status == _NOT_FOUND for child in story.tree.children(process.pid)
    )
    prior = 0.9 if reported else 0.6
    if own_failure and ended.code != _NOT_FOUND:
        prior = 0.3
    searches = _searches(missing)
    for at, (name, folders) in enumerate(searches):
        last = (name, folders) == searches[0] and len(folders) >= _SEARCHED
        # `command -v NAME || exit 1`: the search is the last thing that was done.
        told = asks and words.names(said, name) and not faults.of_work(said)
        needed = last and (asked or told)
        missed = needed or _missed(said, name, programs)
        vague = last and (_vaguely(said) or (_gave_up_upon(ended, name) and not asks))
        if _is_sourced(said, name, folders) or not name.isprintable():
            continue  # a file that was to be read; or what a shell took a binary's bytes for
        # Who went on to start another one, found later on the same path, could do without.
        went_on = any(later in story.started for later, _ in searches[:at])
        if name not in programs and (missed or vague):
            return Suspect(
                cause="exec.not_found",
                event=ended,
                prior=prior if missed else 0.6 * prior,
                went_on=went_on,
                summary=f"{story.who(ended)} found no program {name} in {', '.join(folders)}",
                advice=f"install {name} in the sandbox image, or add its directory to PATH",
                mentions=(name,),
                spellings=("not found", "no such file", "is not a"),
            )
    return None


def _gave_up_upon(ended: Exit, name: str) -> bool:
    """The search was the last thing that failed, and the program's own end followed."""
    said = ended.last_words or ""
    last = ended.missing[-1] if ended.missing else ""
    spoke = bool(said.strip()) and not faults.of_work(said)
    return spoke and os.path.basename(last) == name


def _has_failed_children(story: Story, process: Process) -> bool:
    return any(child.failed for child in story.tree.children(process.pid))


def _is_sourced(said: str, name: str, folders: list[str]) -> bool:
    """One place alone, told with its directory: a file that was to be read, `. DIR/NAME`."""
    return len(folders) == 1 and words.names(said, f"{folders[0]}/{name}")


_SEARCHED = 3  # directories: that is a PATH, not a guess
_VAGUELY = re.compile(r"(?i)\bnot (found|installed|available)\b|\bno \w+ found\b|\bmissing\b")


def _vaguely(said: str) -> bool:
    """It says that something is not there, without the name."""
    return bool(_VAGUELY.search(said)) and not faults.of_work(said)


def _missed(said: str, name: str, programs: set[str]) -> bool:
    """The output says of this very name that it is not there; a subcommand by its own name."""
    parts = [
        name,
        *(name.removeprefix(f"{one}-") for one in programs if name.startswith(f"{one}-")),
    ]
    return any(
        words.names(line, part)
        and (
            _NOT_THERE.search(line.split(part, 1)[1])
            or _NOT_FOUND_BEFORE.search(line.split(part, 1)[0])
            or words.says(line, "ENOENT")
        )
        for part in parts
        for line in _NAME_BELOW.sub(": ", said).splitlines()
    )


def is_program_path(path: str) -> bool:
    """Whether it lies in a directory of programs, as PATH names them."""
    return path.startswith("/") and os.path.basename(os.path.dirname(path)) in _PROGRAM_FOLDERS


def _searches(missing: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Names that were looked up in directories of programs, the last first."""
    found: dict[str, list[str]] = {}
    for path in missing:
        folder, name = os.path.split(path)
        if name and is_program_path(path) and not name.endswith((".so", ".dylib")):
            found.setdefault(name, []).append(folder)
    return list(reversed(found.items()))
