"""What error output says: of an errno, of a thing, of a fault of the work's own."""

from __future__ import annotations

import functools
import re
import signal

from probe import abi
from probe.diagnose import faults
from probe.diagnose.crashes import signal_number

# How errnos are spelled where runtimes print neither strerror(3) nor the errno's name.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "EPERM": ("PermissionError", "not permitted", "AccessDenied"),
    "EACCES": ("PermissionError", "AccessDenied", "permission denied"),
    "ENOENT": ("FileNotFound", "NoSuchFile", "not found", "cannot find", "unable to open"),
    "ECONNREFUSED": ("ConnectionRefused", "connection refused"),
    "EAGAIN": ("BlockingIOError", "cannot fork", "unable to create native thread"),
    "ENOMEM": (
        "MemoryError",
        "OutOfMemory",
        "bad_alloc",
        "out of memory",
        "could not allocate",
        "process OOM",
        "reserve virtual memory",
        "allocation failed",
        "cannot allocate",
    ),
    "ENOSYS": ("not implemented", "not supported"),
    "ETIMEDOUT": ("timed out", "TimeoutError", "timeout"),
    "EROFS": ("read-only", "readonly", "unable to open database"),
    "ENOSPC": ("no space left", "disk full"),
    "ENETUNREACH": ("network is unreachable",),
    "EHOSTUNREACH": ("unreachable", "no route"),
    "ECONNRESET": ("ConnectionReset", "reset by peer"),
    "EMFILE": ("too many open files",),
}
# How those put it who do not say what is wrong with a thing, but that they cannot use it.
CANNOT = (
    *("cannot open", "can't open", "could not open", "couldn't open", "failed to open"),
    *("unable to access", "unable to read", "could not read", "cannot read", "can't read"),
    *("cannot access", "cannot stat", "no rule to make", "failed to read", "error opening"),
    *("error reading", "does not exist", "doesn't exist"),
)
_SOME_FAULT = re.compile(
    r"\b(\w*Error|Traceback|\w*Exception|[Ff]atal|FAILED|ERROR|FAIL|error|[Ff]ailed|failures?|[Cc]annot|[Uu]nable|differ)\b"
)
# One error as the cause of another: Python, Java.
_CHAINS = ("During handling of the above", "direct cause of the following", "Caused by")
_FRAME = re.compile(r'(?m)^(  File "[^\n]*)\n(    [^\n]*\n)+')
# pytest shows the source around a failure, with whatever that expects and handles.
_PYTEST = "= FAILURES ="
_PYTEST_SOURCE = re.compile(r">|    ")
# An exception in a finalizer goes nowhere (sys.unraisablehook).
_UNRAISABLE = re.compile(
    r"(?m)^Exception ignored in.*\n(Traceback \(most recent.*\n([ \t].*\n)*)?(\w[\w.]*(:.*)?$\n?)?"
)
_CMAKE = re.compile(r"(?m)^(CMake (?:Warning|Error) [^\n]*:)\n\s+")  # the text stands below
_IGNORED = re.compile(r"(?m)^.*\n(?=make(\[\d+\])?: \[[^\n]*\(ignored\))")
TIMEOUTS = (
    *("timed out", "TimeoutExpired", "TimeoutError", "time limit", "deadline exceeded"),
    *("took too long", "timeout"),
)
# The bare word is as often the name of an option or an argument.
_TIMED_OUT = re.compile("|".join(TIMEOUTS).replace("timeout", r"\btimeout\b(?![_=.)])"), re.I)


def ignored(words: str) -> bool:
    """make(1) says that it goes on all the same."""
    return "(ignored)" in words


def told(words: str) -> str:
    """Without what is no failure: source lines in a traceback, what make or Python ignored."""
    if _PYTEST in words:
        words = "\n".join(line for line in words.split("\n") if not _PYTEST_SOURCE.match(line))
    without = _IGNORED.sub("", _FRAME.sub(r"\1\n", _UNRAISABLE.sub("", words)))
    without = _CMAKE.sub(r"\1 ", without)
    return without.replace("TypeError: fetch failed", "fetch failed")  # of any network error


def timed_out(words: str) -> bool:
    return _TIMED_OUT.search(told(words)) is not None


_VERDICT = "--- FAIL: "  # go test's, after what a test has said
_COULD_NOT_WRITE = re.compile(
    r"(?i)(unable to|failed to|could not|couldn't|cannot|can't) (create|write|save|store|persist|"
    r"extend)|write error"
)


def could_not_write(words: str) -> bool:
    return _COULD_NOT_WRITE.search(words) is not None


_TELLS_OF_A_DEATH = re.compile(
    r"(?i)\b(crash(ed)?|killed|died|disconnected|terminated (unexpectedly|abruptly)|went away|"
    r"(closed|exited) unexpectedly|connection (was )?(lost|closed)|broken ?pipe|hung up)\b"
)


def tells_of_a_death(words: str) -> bool:
    """It says that something it worked with is there no more."""
    return _TELLS_OF_A_DEATH.search(words) is not None


_TELLS_OF_A_CHILD = re.compile(
    r"Error \d+$|exit(ed)? (with )?(code|status)|non-zero|returned \d|Command failed", re.M
)


def tells_of_a_child(words: str) -> bool:
    """It says of another program that it failed, and how."""
    return _TELLS_OF_A_CHILD.search(words) is not None


_STATUS = re.compile(
    r"\*\*\* .*\] Error (\d+)$|returned non-zero exit status (\d+)|"
    r"\b(?:exit(?:ed)?(?: with)?|return(?:ed)?) (?:code|status):? (\d+)\b",
    re.M,
)


def tells_end(words: str, name: str) -> bool:
    """The last line is a shell's, of a program that this signal has ended."""
    number = signal_number(name)
    last = last_line(words)
    return any(text in last for text, one in _SIGNALS.items() if one == number)


_SIGNALS = {text: one for one in signal.valid_signals() if (text := signal.strsignal(one))}
_MAKE_TELLS = re.compile(rf"\*\*\* .*\] ({'|'.join(map(re.escape, _SIGNALS))})", re.M)


def statuses(words: str) -> frozenset[int]:
    """Of other programs, that it gives as the reason of its own failure."""
    found = _STATUS.findall(words)
    numbers = {int(number) for groups in found for number in groups if number}
    return frozenset(numbers | {128 + _SIGNALS[name] for name in _MAKE_TELLS.findall(words)})


_OF_STATUS = re.compile(
    r"(?i)return_?code|exit_?code|exit status|\bstatus\b|\bsignal\b|\bassert -\d"
)


def tells_status(words: str, status: int) -> bool:
    """As a shell counts it, as wait(2) or as Python does: where the words are about a status, or
    compare it with 0."""
    numbers = {str(status), str(status << 8), *({f"-{status - 128}"} if status > 128 else ())}
    told = {one for line in words.splitlines() for one in _NUMBER.findall(line)}
    return not numbers.isdisjoint(told) and ("0" in told or bool(_OF_STATUS.search(words)))


_NUMBER = re.compile(r"(?<![\w.-])-?\d+\b(?!\.\d)")

_BY_NOBODY = (  # how an exception is told that nobody caught
    r"Traceback \(most recent|Exception in thread|panic: |thread '.*' panicked|Uncaught |"
    r"(PHP )?Fatal error: +Uncaught |\S+:\d+:in [`'].*\(\w[\w:]*\)$|\s+at .*\(?node:internal"
)
_UNCAUGHT = re.compile(rf"^({_BY_NOBODY})")
_STACK = re.compile(  # of Java and JavaScript, Ruby, Go
    r"\s+(at|from) |goroutine \d+ \[|[\w./*()]+\([^)]*\)$|\t\S+:\d+( \+0x[0-9a-f]+)?$|"
    r"#\d+ \S+|\s+thrown in |Stack trace:$|\s*\^[\^~]*$|exit status \d+$"
)
_WARNING = re.compile(
    r"\b((?i:warn(ing)?|skip(s|ped|ping)?|xfail(ed)?)|[Ii]gnor(ed|ing)|optional|disabled|going on|"
    r"continuing|[Ff]all(s|ing)? back|unavailable, |off|instead|not usable|best effort|"
    r"non-fatal|not (counted|required|needed)|allowed to fail|tolerated|"
    r"[Uu]sing (the |a |an )?(default|built-?in|bundled|slower|pure|plain|fallback)|"
    r"(done|goes|going|running|work(s|ing)?|proceed(s|ing)?|continu(es?|ing)|carr(ies|y|ying) on) "
    r"without)\b|\((allowed|optional)\)|"
    r", using \w+$|\(using \w+\)$"
)
# What comes after the work, and is told when it fails, but fails nothing.
_TIDYING = re.compile(r"(?i)\b(clean(ing)?[- ]?up|tear(ing)?[- ]?down|left behind)\b")
# What becomes of a failure that somebody swallowed: the value that it was to yield is not there.
_NOTHING_CAME = re.compile(
    r"NoneType|\bof (null|undefined)\b|NullPointer|\bnil\b(?! map)|null reference|\bnot? None\b|"
    r"(?i:\b(got|have|found|received|read|was|actual):? "
    r"(0|none|null|nothing|nil|undef|empty|\[\]|\{\})(?!\w)|"
    r"\b(got|has|have|is|was|status|answer|body):? (''|\"\")(?!\w)|"
    r"\bunexpected (end|eof)\b|"
    r"\bempty (response|output|reply)|\bis empty\b)|"
    r"\(char 0\)|AssertionError: (\[\]|\{\}|None|b?''|\"\"|0)$|"
    r"\bassert (not )?(b?''|\"\"|\[\]|\{\}|None)"
)
# That is how PHP and the JVM tell what failed.
_NO_WARNING = re.compile(r"(PHP )?Warning: +\w+\(|\[[\d.]+s\]\[warning\]\[")
_RETRY = re.compile(r"\b[Rr]etry(ing)?\b")


def says(words: str, errno: str) -> bool:
    """Whether an error output speaks of this errno, in one of its spellings."""
    return mentions(words, errno_spellings(errno))


def mentions(words: str, spellings: tuple[str, ...]) -> bool:
    """Codes in capitals and numbers must stand alone; texts may be of any case."""
    codes, texts = _patterns(spellings)
    return (texts is not None and texts.search(words.lower()) is not None) or (
        codes is not None and codes.search(words) is not None
    )


def touches(words: str, beginnings: tuple[str, ...]) -> bool:
    """Whether a word begins with one of these."""
    return bool(beginnings) and _beginning(beginnings).search(words) is not None


@functools.lru_cache(maxsize=512)
def _beginning(beginnings: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(map(re.escape, beginnings))})", re.I)


@functools.lru_cache(maxsize=512)
def _patterns(spellings: tuple[str, ...]) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Of the codes in capitals and numbers, and of the texts, in small letters."""
    codes = "|".join(re.escape(one) for one in spellings if one and one == one.upper())
    texts = "|".join(re.escape(one.lower()) for one in spellings if one != one.upper())
    return (
        re.compile(rf"(?<![\w-])({codes})(?![\w-])") if codes else None,
        re.compile(texts) if texts else None,
    )


def names(words: str, thing: str) -> bool:
    """Whether a path, a program or an address is named, as a whole."""
    return bool(thing) and _names(words, thing)


@functools.lru_cache(maxsize=512)
def _whole(thing: str) -> re.Pattern[str]:
    # What stands behind a dot is an extension.
    return re.compile(rf"(?<![\w-])(?<!\w\.){re.escape(thing)}(?![\w-])")


def _names(words: str, thing: str) -> bool:
    return thing in words and _whole(thing).search(words) is not None


def some_fault(words: str) -> bool:
    return _SOME_FAULT.search(words) is not None


def only_warned(words: str, spellings: tuple[str, ...]) -> bool:
    """It is named in warnings alone, and something else is said in a later line."""
    lines = [line for line in words.splitlines() if line.strip()]
    named = [number for number, line in enumerate(lines) if mentions(line, spellings)]
    spelled = _topics(" ".join(spellings))
    return _only_in_warnings(lines, named, spelled) and any(
        not _is_warning(line) for line in lines[named[-1] + 1 :]
    )


def _only_in_warnings(lines: list[str], named: list[int], spelled: set[str]) -> bool:
    """Not where a failure is told later that has a topic in common: "Warning: could not listen
    on ...", "Failed listening, aborting" is one story."""
    if not named or not all(_is_warning(lines[number]) for number in named):
        return False
    warned = _topics("\n".join(lines[number] for number in named))
    later = [line for line in lines[named[-1] + 1 :] if not _is_warning(line)]
    return not any(some_fault(line) and warned & _topics(line) - spelled for line in later)


def _is_warning(line: str) -> bool:
    stance = _WARNING.search(line) or _TIDYING.search(line)
    return bool(stance) and not _RETRY.search(line) and not _NO_WARNING.match(line)


def warned_at_last(words: str, spellings: tuple[str, ...]) -> bool:
    """It is named in warnings alone, after which nothing is said."""
    named = [line for line in words.splitlines() if mentions(line, spellings)]
    return bool(named) and all(map(_is_warning, named))


def only_warnings(words: str) -> bool:
    """Each line says that something is done without, or the like."""
    lines = [line for line in words.splitlines() if line.strip()]
    return bool(lines) and all(map(_is_warning, lines))


def nothing_came(words: str) -> bool:
    """A fault of the work's own that is over the lack of a value."""
    lines = words.splitlines()
    telling = [at for at, line in enumerate(lines) if faults.of_work(line)]
    around = lines[max(0, telling[-1] - _AROUND) : telling[-1] + _AROUND + 1] if telling else []
    return _NOTHING_CAME.search("\n".join(around)) is not None


_AROUND = 3  # lines: "actual: 0" stands below "code: 'ERR_ASSERTION'"
_THROWN = re.compile(rf"^({_BY_NOBODY}|Unhandled |terminate called)", re.M)


def is_thrown(words: str) -> bool:
    """The words are those of an exception that nobody caught."""
    return _THROWN.search(words) is not None


def last_line(words: str) -> str:
    """The last one that is no frame of a stack."""
    lines = [line for line in words.splitlines() if line.strip() and not _STACK.match(line)]
    return lines[-1] if lines else ""


def passed_over(words: str, things: tuple[str, ...]) -> bool:
    """Each line that names one of the things says that it was skipped."""
    lines = words.splitlines()
    named = [at for at, line in enumerate(lines) if any(names(line, thing) for thing in things)]
    return _only_in_warnings(lines, named, set())


def overtaken(words: str, spellings: tuple[str, ...]) -> bool:
    """It is named, but the last word is of a fault of the work's own that does not come of it."""
    if any(chain in words for chain in _CHAINS):
        return False
    lines = words.splitlines()
    named = [number for number, line in enumerate(lines) if mentions(line, spellings)]
    later = (
        [line for line in lines[named[-1] + 1 :] if not line.startswith(_VERDICT)] if named else []
    )
    return any(faults.of_work(line) for line in later)


def forestalled(words: str, spellings: tuple[str, ...], things: tuple[str, ...]) -> bool:
    """It was told at last, after a fault of the work's own: in an end that was under way."""
    if _PYTEST in words or any(chain in words for chain in _CHAINS):
        return False
    lines = words.splitlines()
    named = (
        number
        for number, line in enumerate(lines)
        if mentions(line, spellings) or any(names(line, thing) for thing in things)
    )
    return any(faults.of_work(line) for line in lines[: next(named, 0)])


def thrown_after(words: str, spellings: tuple[str, ...], things: tuple[str, ...]) -> bool:
    """It was logged, and later the same process died of an exception that does not name it."""
    if any(chain in words for chain in _CHAINS):
        return False
    lines = words.splitlines()
    named = [number for number, line in enumerate(lines) if mentions(line, spellings)]
    return bool(named) and any(
        _UNCAUGHT.search(line)
        and _headline(lines, number) != named[-1]
        and not any(names(line, thing) for thing in things)
        for number, line in enumerate(lines)
        if number > named[-1]
    )


def another_thrown(words: str, spellings: tuple[str, ...]) -> bool:
    """It was told, and then the process died of an exception of the work's own, over no lack."""
    thrown = _THROWN.search(words)
    if thrown is None or any(chain in words for chain in _CHAINS):
        return False
    if mentions(words[thrown.start() :], spellings) or nothing_came(words):
        return False
    return faults.of_work(last_line(words))


def _headline(lines: list[str], number: int) -> int:
    """Where the exception is named whose stack a line is part of: frames come after it."""
    while number and (_STACK.match(lines[number]) or not some_fault(lines[number])):
        number -= 1
    return number


# What every program says that failed, whatever of.
_GENERAL = frozenset(
    (
        "failed failure failing fails fail error errors fatal exception job task step stage tool "
        "build test tests check checks run running command script main exit exited status code "
        "abort aborted aborting giving gave give stop stopped could cannot not unable did does do "
        "complete completed finish finished succeed successfully bad setup deploy pipeline worker "
        "workers process service unexpected something went try trying again later please see log "
        "logs output the and with for was has have had been while during this that from report "
        "reported action operation make line bash python node perl java traceback most recent "
        "call last module runtimeerror at in to of on by is it its an be broken down up ok no one "
        "all any out got get getting program application app session agent harness suite phase "
        "batch sync update upload release publish import export start startup init initialise "
        "initialize work failed. error: returned non zero errno"
    ).split()
)
_WORD = re.compile(r"[A-Za-z]{2,}")
_TOPIC = 5  # letters
_SPECIFIC = 2  # words of a line beyond those


def _topics(text: str) -> set[str]:
    """What it is about: its longer words, but those that every failure has."""
    return {word.lower() for word in _WORD.findall(text) if len(word) >= _TOPIC} - _GENERAL


# What test runners and runtimes end with, whatever came before it.
_SUMMARY = re.compile(
    r"(FAIL|FAILED|PASS|OK|ERROR)\b(\s+\S+\s+[\d.]+s)?\s*(\(.*\))?$|"
    r"[# ]*\d+ (failed|passed|errors?|runs|tests|todo)\b|Ran \d+ tests?|-{3,}|={3,}|"
    r"Node\.js v\d|exit status \d+$|Result: FAIL|# Looks like you |# (duration_ms|todo|skipped) "
)


def is_specific(words: str) -> bool:
    """Whether the last line speaks of something, instead of a failure as such."""
    lines = [line for line in words.splitlines() if line.strip() and not _SUMMARY.match(line)]
    if not lines:
        return False
    beyond = {word.lower() for word in _WORD.findall(lines[-1])} - _GENERAL
    return len(beyond) >= _SPECIFIC


def errno_spellings(errno: str) -> tuple[str, ...]:
    """The name, the text of strerror(3), and what runtimes make of it."""
    return (abi.errno_text(errno), errno, *_SPELLINGS.get(errno, ()))


def unexplained_errno(words: str) -> str | None:
    """An errno that the output speaks of by the name or text that libc gives it."""
    for errno in _SPELLINGS:
        if mentions(words, (abi.errno_text(errno), errno)):
            return errno
    return None
