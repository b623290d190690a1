"""How programs put it that their work is at fault: its code, its data, what was expected of it.

Data, by who says so. None of it is what a refusal, a lack or a limit of the surroundings comes
out as: where those may have cut data short ("unexpected end of file"), it is left out.
"""

from __future__ import annotations

import functools
import re

# Of what is thrown in a language; the names go on with Error or Exception.
_THROWN = (
    # Python
    "Value Key Type Index Name Attribute ZeroDivision Syntax Indentation Tab Unicode Arithmetic "
    "Overflow UnboundLocal FloatingPoint Recursion Lookup Decode Encode Integrity ModuleNotFound "
    "FrozenInstance Undefined Validation "
    # Ruby
    "NoMethod Frozen FloatDomain Regexp StopIteration LocalJump SystemStack NoMatchingPattern "
    "NoMatchingPatternKey UncaughtThrow Fiber Parser UndefinedConversion InvalidByteSequence "
    "Date:: "
    # JavaScript, PHP
    "Reference Range URI DivisionByZero Argument ArgumentCount UnhandledMatch Json "
    # Java
    "NumberFormat IsADirectory NotADirectory FileExists ConcurrentModification ClassCast "
    "NoSuchElement InputMismatch IllegalArgument OutOfBounds NullPointer ArrayStore "
    "NegativeArraySize UnsupportedOperation DateTime DateTimeParse EmptyStack PatternSyntax "
    "StackOverflow InaccessibleObject NoSuchField NoSuchMethod UnknownFormatConversion"
).split()

_TOLD = {
    "assertions": (
        r"AssertionError|AssertionFailed|[Aa]ssert(ion)? .*failed|ASSERT|\bassert \S",
        r"\b[Ee]xpected\b.*\b(got|but|instead|actual|was)\b|\bis not (the )?expected\b",
        r"\bmismatch\b|\b[Ee]xpected \d|\bgot \S+,? want|, want(ed)? |\bwant \d.*, have |\bwrong\b|"
        r"\bshould (be|have|equal)\b|\bnot equal\b",
        r"(?i:(does|did) not match)|\S+ != \S+",
        r"^\s*Expected: .*\n\s*Actual: |"
        r"\bExpected .* to (include|match|be|equal|respond|contain)\b",
        r"^#\s+(got|\$got\S*)( =|:) |^#\s+doesn't match '|\bDID NOT RAISE\b|\bXPASS\(strict\)",
        r"\b[1-9]\d* failures?, \d+ errors\b|\*\*\*Test Failed\*\*\*",
        # Of texts and files that are compared: diff(1), cmp(1).
        r"^\d+(,\d+)?[acd]\d+(,\d+)?$|^@@ .* @@|\bdiffer: (byte|char) \d|"
        r"^(Binary f|F)iles .* differ$",
        r"\b(checksums?|hash(es)?|digests?|outputs?|results?|files?|snapshots?) differs?\b",
        r"\b(checksum|digest|hash) of \S+ (is|was) \S+, |"
        r"\b\d+ of \d+\b.*\b(failed|differ|wrong|bad)\b|\b\d+ \w+ differ\b|^\d+ failed$",
    ),
    "claims": (
        r"\b(below|above|over|under|exceeds?) (the )?(threshold|budget|minimum|maximum)",
        r"\bneither \S+ nor\b|\b(is not|must be) one of\b|\b\d+ instead of \d|"
        r"\bis not (newer|older|greater|less|larger|smaller|higher|lower|equal|unique|sorted|"
        r"an? (valid|known|number|integer|float|string|boolean|list|array|object|date|function))\b|"
        r"\b([Nn]eeds|[Rr]equires|[Ww]ants) \S+ or (later|newer|higher|above|more)\b|"
        r"\bis (below|above|over|under) (the )?\d|\bis too (old|new|short|long|small|low|high)\b",
        r"\bmust (not )?be (empty|greater|less|one|an?|positive|negative|null|zero|unique|equal|"
        r"between|of|set)\b|\bat least \d|\bnot allowed: |\bvalidation (failed|error)",
        r"\b[Dd]uplicate (key|id|name|entry|field|column|value)",
    ),
    "arguments": (
        r"\b[Uu]sage: |(?<!fish: )\b[Uu]nknown (sub)?(command|option|argument|key|field|predicate|"
        r"directive|suffix|CMake command)|\b[Uu]nrecognized (argument|option)|\bbad option\b",
        r"\brequired (argument|field|option)|\boption requires an argument|\boption .* is unknown",
        r"\binvalid (value|syntax|option|argument|format|input|number|literal|date|suffix)",
    ),
    "languages": (
        r"unbound variable|parameter not set|readonly variable|bad math expression|"
        r"bad substitution|integer expression expected|syntax error|"
        r"Syntax error: \".* unexpected \(expecting|unexpected (token|operator)",
        r"(?i:\bdivi(de|sion) by (zero|0)\b)|/ by zero|EADDRINUSE|[Aa]ddress (already )?in use",
        r"undefined (reference|variable|method)|Call to (a member function|private|protected)|"
        r"cannot import name|io\.UnsupportedOperation|struct\.error|binascii\.Error|"
        r"InvalidOperation",
        # Perl
        r"Can't call method|Can't locate object method|Global symbol .* requires|"
        r"Not an? (ARRAY|HASH|CODE|SCALAR) reference|Can't use (string|an undefined)|"
        r"Undefined subroutine|Modification of a read-only|Bareword .* not allowed",
        # Go; and Perl's panic comes of a want of memory
        r"\bpanic:(?!.* at .* line \d+\.$)|all goroutines are asleep|concurrent map |"
        r"cannot unmarshal|\bparsing time \"|strconv\.\w+: parsing",
        # Rust
        r"`Option::unwrap\(\)` on a `None`|Parse(Int|Float|Bool|Char)Error|index out of bounds|"
        r"attempt to \w+ (with overflow|by zero)|already (mutably )?borrowed|overflowed its stack",
        # Ruby, of threads that wait for each other
        r"No live threads left|deadlock; |\ball threads are asleep",
        # Tools with a language of their own: sed, grep, awk, jq, tcl, make
        r"\bunterminated |\bUnmatched [(\[]|\bmissing \S+ near |Cannot (index|iterate over) |"
        r"\bbad expression|invalid command name|missing separator|"
        r"\": no such (variable|element in array)|wrong # args: ",
    ),
    "compilers": (
        r"\.\w+:\d+(:\d+)?: error: (?!.*\b(while writing|[Cc]ould not|"
        r"[Cc]annot (open|create|write)|[Nn]o such file|denied|[Rr]ead-only)\b)|"
        r"\berror\[E\d+\]|\berror TS\d+",
        r"^(vet: )?[\w./-]+\.\w{1,4}:\d+:\d+: (?!.*\b(warning|note|[Nn]o such|[Nn]ot found|"
        r"[Cc]annot find|[Pp]ermission|denied)\b)",
    ),
    "data": (
        r"\b[Pp]arse error\b|ParseError\b|Expecting (value|property|',')|could not be parsed|"
        r"must be actual JSON|mismatched tag|\bdid not find expected\b|\bmalformed\b",
        r"not in gzip format|not look like a tar archive|[Ff]ile format not recognized|"
        r"invalid compressed data|[Bb]ad [Mm]agic number|illegal (input|byte) sequence|"
        r"Unrecognized header|not a zip file|bad decrypt|is not sorted|: disorder: ",
    ),
    "databases": (
        r"\bdatabase( table)? is locked|\bno such (column|table|function|index)\b|"
        r"constraint failed|\bviolates [\w-]+( key)? ",
        r"\b(relation|column|function|type) \S+ does not exist|No function matches|"
        r"value too long for type|WRONGTYPE|ERR (value|[Ww]rong number|unknown|user_script)",
        r"\b(branch|tag|database|relation|role|table|column) \S+( named \S+)? already exists",
    ),
    # What was asked for is at fault (RFC 9110, 15.5); 5xx may come of anything.
    "servers": (
        r"\b(HTTP|HTTP Error|HTTP/[\d.]+|ERROR|error:|status|status code|got) "
        r"(400|404|405|406|409|410|411|413|414|415|422)\b",
    ),
    "version control": (
        r"\bCONFLICT \(|\b[Mm]erge conflict|\bwould be overwritten by |! \[rejected\]|"
        r"\bCould not apply [0-9a-f]{4}|\bdoes not apply\b|\bHunk #\d+ FAILED|\bcorrupt patch\b|"
        r"\bdid not match any file|[Uu]nknown revision|\bbad revision|nothing to commit|"
        r"not fully merged|is not a git command|Not possible to fast-forward|bad config line",
    ),
    "watchdogs": (r"^Timeout \(\d+:\d\d:\d\d",),  # Python's faulthandler, of what hung
    "checkers": (r"==\d+== (Invalid (read|write|free)|Conditional jump)",),  # valgrind
}
_OWN = re.compile(
    "|".join(
        [
            rf"\b\w*({'|'.join(_THROWN)})(Error|Exception)\b",
            *(pattern for patterns in _TOLD.values() for pattern in patterns),
        ]
    ),
    re.M,
)
# What the C library and sanitizers say of a program's own memory.
_MEMORY = re.compile(
    r"double free|free\(\): |malloc\(\): |munmap_chunk\(\)|corrupted (size|double|unsorted)|"
    r"stack smashing|buffer overflow detected|Sanitizer: "
)
# What C++ throws over a fault in the logic of a program (std::logic_error and its like), and what
# JavaScript's engine says of a heap that is as large as it was told to let it grow.
_LOGIC = re.compile(
    r"[Hh]eap out of memory|Reached heap limit|instance of '(std::(out_of_range|invalid_argument|"
    r"length_error|domain_error|logic_error|range_error|bad_cast|bad_optional_access|"
    r"bad_variant_access|bad_function_call|regex_error))"
)


@functools.lru_cache(maxsize=256)
def of_work(words: str) -> bool:
    """A fault that no sandbox makes: an assertion, a wrong value, a port already in use."""
    return _OWN.search(words) is not None or of_memory(words) or of_logic(words)


def of_logic(words: str) -> bool:
    """An exception that no system call is the reason of."""
    return _LOGIC.search(words) is not None


def of_memory(words: str) -> bool:
    """A program that spoilt its own memory, as the C library or a sanitizer found."""
    return _MEMORY.search(words) is not None
