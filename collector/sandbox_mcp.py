"""`collector sandbox-mcp`: a local sandbox for a coding agent, as an MCP server on stdio.

Each call is a command in the sandbox and a span of its agent, with digests of its arguments and
results at both ends, so that a failure can be told apart: the sandbox, this server, or the work.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from collector.sandbox import Profile, Sandbox
from collector.sandbox.calls import Calls, Result
from probe.digest import digest
from probe.events import JsonObject
from probe.exchange import SERVER, Transfer
from probe.mcp_server import Tool, brief, serve
from probe.problem import Problem

LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "python": ("python3",),
    "bash": ("bash",),
    "node": ("node",),
    "perl": ("perl",),
    "ruby": ("ruby",),
    "php": ("php",),
}
_SHOWN = 64 << 10  # bytes of output in an answer
_TEXT: JsonObject = {"type": "string"}
_LIMIT: JsonObject = {"type": "number", "minimum": 0.1, "maximum": 600, "default": 60}
_ENCODING: JsonObject = {
    "enum": ["text", "base64"],
    "default": "text",
    "description": "base64 for what is not text: bytes come through unchanged",
}
_RAN: dict[str, JsonObject] = {
    "text": _TEXT,
    "status": {"type": "integer", "description": "exit status; 128+N after signal N"},
    "stdout": _TEXT,
    "stderr": _TEXT,
    "truncated": {"type": "boolean"},
    "timed_out": {"type": "boolean"},
    "why": {"type": ["object", "null"], "description": "the cause, where it failed and is known"},
}
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && cat -- "$1"'


class SandboxServer:
    """One sandbox, and a directory of its own that lasts from call to call until `reset`."""

    def __init__(
        self, profile: Profile, name: str, run: str, secrets: Mapping[str, str] | None = None
    ) -> None:
        self._profile, self._name, self._run = profile, name, run
        self._secrets = dict(secrets or {})
        self._numbers = itertools.count(1)
        self._folder = Path(tempfile.mkdtemp(prefix="work-"))
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> SandboxServer:
        """Problem where the sandbox cannot be made."""
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self) -> None:
        shared = [*self._profile.shared, str(self._folder)]
        profile = Profile(**{**vars(self._profile), "shared": shared})
        self._sandbox = Sandbox(profile, self._name).__enter__()
        labels = {"application": "code", "profile": self._name}
        self._calls = Calls(self._sandbox, self._run, labels, self._secrets)

    def _close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.__exit__()
            self._sandbox = None

    def run_code(self, arguments: JsonObject) -> JsonObject:
        language, code = arguments["language"], arguments["code"].encode()
        name = f"main.{language}"
        self._put(name, code, "code")
        argv = [*LANGUAGES[language], str(self._folder / name)]
        return self._ran("run_code", argv, arguments["timeout_s"])

    def run_command(self, arguments: JsonObject) -> JsonObject:
        command = arguments["command"]
        if "\0" in command:
            raise Problem("the command has a NUL in it", "no argument can hold one; use a file")
        argv = ["bash", "-c", command]
        sent = Transfer("command", SERVER, False, digest(command.encode()))
        return self._ran("run_command", argv, arguments["timeout_s"], sent)

    def write_file(self, arguments: JsonObject) -> JsonObject:
        data = _bytes(arguments["content"], arguments["encoding"])
        result = self._put(arguments["path"], data, "content")
        if result.status:
            return _answer(result)
        return {**_answer(result), "text": f"{len(data)} bytes written", "stdout": ""}

    def read_file(self, arguments: JsonObject) -> JsonObject:
        path = self._path(arguments["path"])
        result = self._call("read_file", ["cat", "--", path], outward="content")
        answer = _answer(result)
        if result.status:
            return {**answer, "content": ""}
        content = _shown(result.stdout, arguments["encoding"])
        return {**answer, "text": content, "stdout": "", "content": content}

    def list_files(self, arguments: JsonObject) -> JsonObject:
        path = self._path(arguments["path"])
        listing = ["find", path, "-mindepth", "1", "-maxdepth", "1", "-printf", "%y %s %f\\n"]
        result = self._call("list_files", listing)
        return _answer(result)

    def reset(self, arguments: JsonObject) -> JsonObject:
        """A new sandbox; nothing that was written is there any more."""
        self._close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._open()
        return {"text": "the sandbox is new, and empty"}

    def _put(self, path: str, data: bytes, name: str) -> Result:
        """Writes a file, and reads it back: so it is known what arrived."""
        sent = Transfer(name, SERVER, False, digest(data))
        argv = ["sh", "-c", _WRITE, "write", self._path(path)]
        return self._call("write_file", argv, given=data, transfers=(sent,), written=name)

    def _path(self, path: str) -> str:
        if "\0" in path:
            raise Problem("the path has a NUL in it", "no file can be named so")
        return str(self._folder / path)

    def _ran(self, tool: str, argv: list[str], limit_s: float, *sent: Transfer) -> JsonObject:
        return _answer(self._call(tool, argv, transfers=sent, limit_s=limit_s))

    def _call(
        self,
        tool: str,
        argv: list[str],
        *,
        given: bytes = b"",
        transfers: tuple[Transfer, ...] = (),
        limit_s: float = 60.0,
        outward: str = "stdout",
        written: str | None = None,
    ) -> Result:
        test = f"{tool}-{next(self._numbers):05}"
        return self._calls.run(
            test,
            argv,
            given=given,
            folder=str(self._folder),
            limit_s=limit_s,
            transfers=transfers,
            outward=outward,
            written=written,
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        path: JsonObject = {**_TEXT, "description": "relative to the working directory"}
        code = {"language": {"enum": sorted(LANGUAGES)}, "code": _TEXT, "timeout_s": _LIMIT}
        return tuple(
            Tool(name, title, told, given, output, call, required, writes=writes, escaped=False)
            for name, title, told, given, output, call, required, writes in (
                (
                    *("run_code", "Run code", "Runs a program in the sandbox."),
                    *(code, _RAN, self.run_code, ("language", "code"), True),
                ),
                (
                    *("run_command", "Run a command", "Runs a bash command line in the sandbox."),
                    *({"command": _TEXT, "timeout_s": _LIMIT}, _RAN, self.run_command),
                    *(("command",), True),
                ),
                (
                    *("write_file", "Write a file", "Writes a file in the sandbox."),
                    *({"path": path, "content": _TEXT, "encoding": _ENCODING}, _RAN),
                    *(self.write_file, ("path", "content"), True),
                ),
                (
                    *("read_file", "Read a file", "Reads a file of the sandbox."),
                    *({"path": path, "encoding": _ENCODING}, {**_RAN, "content": _TEXT}),
                    *(self.read_file, ("path",), False),
                ),
                (
                    *("list_files", "List files", "A line each: kind, size, name."),
                    *({"path": {**path, "default": "."}}, _RAN, self.list_files, (), False),
                ),
                (
                    *("reset", "Reset", "Throws the sandbox away and makes a new one."),
                    *({}, {"text": _TEXT}, self.reset, (), True),
                ),
            )
        )


def run(profile: Profile, name: str, run: str, secrets: Mapping[str, str]) -> None:
    """Serves on stdio until the client goes."""
    with SandboxServer(profile, name, run, secrets) as server:
        serve("sandbox", server.tools)


def _bytes(content: str, encoding: str) -> bytes:
    if encoding == "text":
        return content.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise Problem(f"content: no base64 ({error})", "use the alphabet with + and /") from None


def _shown(data: bytes, encoding: str) -> str:
    if encoding == "base64":
        return base64.b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Problem("the file is not UTF-8 text", 'read it with "encoding": "base64"') from None


def _answer(result: Result) -> JsonObject:
    stdout = result.stdout[:_SHOWN].decode(errors="backslashreplace")
    stderr = result.stderr[-_SHOWN:].decode(errors="backslashreplace")
    why = brief(result.report) if result.report is not None else None
    told = f"exit status {result.status}" + (", timed out" if result.timed_out else "")
    if why is not None and why["cause"] is not None:
        told += f": {why['cause']}: {why['summary']} {why['advice']}"
    return {
        "text": "\n".join(part for part in (stdout, stderr, told) if part),
        "status": result.status,
        "stdout": stdout,
        "stderr": stderr,
        "truncated": max(len(result.stdout), len(result.stderr)) > _SHOWN,
        "timed_out": result.timed_out,
        "why": why,
    }
