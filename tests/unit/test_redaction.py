"""No planted secret comes through, and what is no secret comes through as it was."""

from __future__ import annotations

import dataclasses
import re
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.events import Dns, Event, Exec, Exit, File
from probe.problem import Problem
from probe.redaction import REDACTED, Redactor, is_secret_name, load

LETTERS = string.ascii_letters + string.digits
# Passwords of people and of generators. Letters and digits both, for in output that tells.
SECRETS = st.builds(
    lambda head, digit, tail: f"{head}{digit}{tail}",
    st.text(LETTERS, min_size=5, max_size=20),
    st.sampled_from(string.digits),
    st.text(LETTERS, min_size=4, max_size=20),
).filter(lambda text: any(map(str.isalpha, text)))
PLAIN = ["run", "the", "job", "at", "/usr/bin/x", "on", "host", "10.0.0.1", "--fast"]
WORDS = st.lists(st.sampled_from(PLAIN))
FEW = settings(max_examples=20, deadline=None)

COMMANDS = [
    ("tool", "--password", "{}"),
    ("tool", "--password={}"),
    ("tool", "-password", "{}"),
    ("tool", "--db-passwd", "{}"),
    ("tool", "--api-key", "{}"),
    ("tool", "--apiKey={}"),
    ("tool", "--clientSecret", "{}"),
    ("tool", "--access_token", "{}"),
    ("env", "TOKEN={}", "tool"),
    ("env", "DB_PASSWORD={}", "tool"),
    ("env", "AWS_SECRET_ACCESS_KEY={}", "tool"),
    ("env", "PGPASSWORD={}", "psql"),
    ("env", "MYSQL_PWD={}", "mysql"),
    ("psql", "postgresql://user:{}@db:5432/x"),
    ("git", "clone", "https://user:{}@example.org/r.git"),
    ("git", "clone", "https://:{}@example.org/r.git"),
    ("curl", "-u", "user:{}", "https://example.org"),
    ("/usr/bin/curl", "--user", "user:{}", "https://example.org"),
    ("curl", "-H", "Authorization: Bearer {}", "https://example.org"),
    ("curl", "-H", "authorization: Basic {}", "https://example.org"),
    ("curl", "-H", "X-Api-Key: {}", "https://example.org"),
    ("curl", "https://example.org/?q=1&token={}&x=2"),
    ("curl", "-d", '{{"password": "{}"}}', "https://example.org"),
    ("mysql", "-p{}", "x"),
    ("sshpass", "-p", "{}", "ssh", "host"),
    ("redis-cli", "-a", "{}"),
    ("docker", "login", "-u", "me", "-p", "{}"),
    ("openssl", "enc", "-pass", "pass:{}"),
    ("sh", "-c", "tool --password {} --fast"),
    ("sh", "-c", "TOKEN={} tool && tool"),
    ("sh", "-c", "export API_KEY='{}'; tool"),
    ("python3", "-c", "connect(password='{}')"),
]
OUTPUTS = [
    "password={}",
    "Error: login failed (token={}, user=me)",
    '{{"access_token": "{}", "expires_in": 3600}}',
    '{{\\"clientSecret\\": \\"{}\\"}}',
    "{{'password': '{}'}}",
    "password: {}",
    "api_key: {}\nregion: eu",
    "tool: unknown option --password {}",
    "> Authorization: Bearer {}",
    "Authorization: token {}",
    "Set-Cookie: session={}; Path=/",
    "could not connect to postgresql://app:{}@db/x",
    "amqp://guest:{}@mq:5672//: refused",
    "wrote ghp_{} to the log",
    "github_pat_{} is not valid",
    "glpat-{}",
    "OPENAI: sk-proj-{}xxxxxxxxxxxx is wrong",
    "sk_live_{}",
    "xoxb-{}",
    "jwt eyJhbGciOiJI.eyJ{}.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIE{}",  # the rest was cut off
]


@pytest.mark.parametrize("form", COMMANDS, ids=" ".join)
@FEW
@given(secret=SECRETS)
def test_no_secret_in_a_command(form: tuple[str, ...], secret: str) -> None:
    redacted = Redactor().words(tuple(word.format(secret) for word in form))
    assert secret not in "\n".join(redacted)
    assert len(redacted) == len(form) and REDACTED in "\n".join(redacted)
    kept = [word for word in form if "{}" not in word]
    assert [word for word in redacted if word in kept] == kept


def test_an_attached_secret_that_reads_like_a_flag_for_one() -> None:
    words = ("mysql", "-pwd00000000", "shop")
    assert Redactor().words(words) == ("mysql", f"-p{REDACTED}", "shop")


@pytest.mark.parametrize("form", OUTPUTS)
@FEW
@given(secret=SECRETS, before=WORDS, after=WORDS)
def test_no_secret_in_output(form: str, secret: str, before: list[str], after: list[str]) -> None:
    text = f"{' '.join(before)}\n{form.format(secret)}\n{' '.join(after)}"
    redacted = Redactor().text(text)
    assert secret not in redacted and REDACTED in redacted
    assert redacted.startswith(" ".join(before))
    assert redacted.endswith(" ".join(after)) or "PRIVATE" in form
    assert Redactor().text(redacted) == redacted


@pytest.mark.parametrize("form", OUTPUTS)
@FEW
@given(secret=SECRETS)
def test_no_secret_in_an_event(form: str, secret: str) -> None:
    said = form.format(secret)
    common = {"sequence": 1, "time_ns": 1, "pid": 1}
    happened: list[Event] = [
        Exit(**common, last_words=said, last_output=said, missing=(said,)),
        Exec(**common, path=said, argv=("sh", "-c", said), cwd=said, searched=(said,)),
        File(**common, syscall="openat", path=said, errno="EACCES", obstacle=said, exe=said),
    ]
    for event in happened:
        redacted = Redactor().event(event)
        assert secret not in repr(redacted)
        assert type(redacted) is type(event) and redacted.sequence == 1


ORDINARY = [
    "Password: ",
    "password: must not be empty",
    "error: the following arguments are required: --password",
    "  --token TOKEN  the token to use",
    "usage: tool [--password-file FILE] [--api-key KEY]",
    "syntax error near unexpected token `done'",
    "SyntaxError: Unexpected token '}' in JSON at position 12",
    "token: unexpected end of file",
    "KeyError: 'secret'",
    "fatal: Authentication failed for 'https://github.com/x/y.git'",
    "git@github.com: Permission denied (publickey).",
    "passwd: Authentication token manipulation error",
    "su: Authentication failure",
    "bypass=1 compass=north passed=12 failed=0",
    "max_tokens=4096 tokenizer=fast token_count=17",
    "PWD=/home/me OLDPWD=/tmp",
    "PASSWORD_FILE=/run/secrets/db TOKEN_URL=https://example.org/token",
    "key=value primary_key=17 keyboard=us monkey=george",
    "password=$DB_PASSWORD token=${TOKEN} secret=<your secret>",
    "password=*** secret=None token=true",
    "def f(password=None, token=''): pass",
    "http://127.0.0.1:8080/path?x=1 ftp://host/file",
    "connect 10.0.0.1:5432: ECONNREFUSED",
    "/usr/lib/python3/dist-packages/keyring/credentials.py: No such file or directory",
    "cannot open shared object file: libsecret-1.so.0",
    "bearer authentication is needed",
    "Authorization: required",
    "task-scheduler-something-very-long-indeed",
    "sk-learn-contrib-package-for-everybody",
    "Out of memory: Killed process 4711 (python3)",
    "bash: line 1: /opt/tool: Permission denied",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor().text(text) == text
    assert Redactor().words(("tool", "--file", text.split()[0])) == (
        ("tool", "--file", text.split()[0])
    )


@settings(deadline=None)
@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    redacted = Redactor().text(text)
    assert redacted == text or REDACTED in redacted
    assert Redactor().words((text, text)) is not None


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="=:"), max_size=30), max_size=6))
def test_what_names_no_secret_is_the_same_object(words: list[str]) -> None:
    event = Exec(sequence=1, time_ns=1, pid=1, path="/bin/x", argv=tuple(words))
    redacted = Redactor().event(event)
    assert redacted == event or REDACTED in repr(redacted)


def test_names_of_hosts_stay() -> None:
    event = Dns(sequence=1, time_ns=1, pid=1, name="token=abc123def4.x", query="A", resolver="::1")
    assert Redactor().event(event) is event


@pytest.mark.parametrize(
    "text",
    ["a" * 100_000 + " password", "token=" + "'" * 50_000, "--token " * 20_000, "eyJ" * 30_000],
)
def test_hostile_text_takes_no_long_time(text: str) -> None:
    Redactor().text(text)  # else pytest's own limit ends it


@pytest.mark.parametrize("name", ["--password", "clientSecret", "X-Api-Key", "DB_PASS", "apiKey"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["--author", "key", "monkey", "token_type", "PASSWORD_FILE", ""])
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_patterns_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "patterns"
    file.write_text("# badges\nBADGE-\\d+\n\nroom (\\w+)\n")
    redactor = load(str(file))
    assert redactor.text("BADGE-17 in room x4 now") == f"{REDACTED} in room {REDACTED} now"
    event = Exit(sequence=1, time_ns=1, pid=1, last_words="BADGE-17")
    assert redactor.event(event) == dataclasses.replace(event, last_words=REDACTED)
    assert redactor.words(("echo", "BADGE-17")) == ("echo", REDACTED)


@pytest.mark.parametrize(
    ("content", "words"), [("ok\n(", "line 2: missing )"), ("x\n" * 300, "more than 256")]
)
def test_patterns_that_are_none(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "patterns"
    file.write_text(content)
    with pytest.raises(Problem, match=re.escape(words)):
        load(str(file))
    with pytest.raises(Problem, match="No such file"):
        load(str(tmp_path / "none"))
