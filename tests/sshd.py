"""A real sshd on loopback, of a test's own: its keys, its port, users that go with it."""

from __future__ import annotations

import os
import select
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 15.0
SESSION_S = 40.0
PROMPT = b"@@ "
ROOT = f"probe-root-{os.getpid()}"  # made by the fixture that starts sshd


class Sshd:
    """Lets anybody in who has the key, with a terminal."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._key = folder / "key"
        for name in ("host", "key"):
            generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
            subprocess.run(generate, check=True)
        keys = folder / "authorized"
        keys.write_bytes((folder / "key.pub").read_bytes())
        for path in (folder, keys):  # sshd reads them as the user who comes
            path.chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        configuration = folder / "sshd_config"
        configuration.write_text(
            f"Port {self._port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\n"
            f"AuthorizedKeysFile {keys}\nStrictModes no\nUsePAM no\nPidFile none\n"
            "PasswordAuthentication no\nPrintMotd no\nPrintLastLog no\n"
        )
        os.makedirs("/run/sshd", exist_ok=True)
        command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(configuration)]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)
        self._await(folder / "log")

    def _await(self, log: Path) -> None:
        end = time.monotonic() + START_S
        while b"Server listening" not in log.read_bytes():
            assert self.process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)

    def session(self, *lines: str, user: str = ROOT, tty: bool = True) -> str:
        """What a terminal shows while somebody types these lines into a login shell."""
        command = ["ssh", *(["-tt"] if tty else ["-T"]), "-p", str(self._port), "-i", self._key]
        for option in (
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
        ):
            command += ["-o", option]
        command += [f"{user}@127.0.0.1"]
        if not tty:
            done = subprocess.run(
                [*command, "; ".join(lines)], capture_output=True, timeout=SESSION_S, check=False
            )
            return done.stdout.decode(errors="replace")
        shell = "exec env PS1='@@ ' bash --noprofile --norc -i"  # no one's own habits
        return _type([*command, shell], lines)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def _type(command: list[str | Path], lines: tuple[str, ...]) -> str:
    """Each line when the shell asks for it: a terminal takes no more than 4096 bytes ahead."""
    environment = {**os.environ, "TERM": "dumb"}
    session = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert session.stdin is not None and session.stdout is not None
    shown, asked, end = b"", 0, time.monotonic() + SESSION_S
    try:
        for line in (*lines, "exit"):
            asked += 1
            while shown.count(PROMPT) < asked:
                assert time.monotonic() < end, shown.decode(errors="replace")
                ready, _, _ = select.select([session.stdout], [], [], 0.1)
                more = session.stdout.read(65536) if ready else None
                assert more != b"", shown.decode(errors="replace")
                shown += more or b""
            session.stdin.write(f"{line}\n".encode())
        rest, _ = session.communicate(timeout=SESSION_S)
    finally:
        session.kill()
        session.wait()
    text = (shown + rest).decode(errors="replace")
    return text.replace(PROMPT.decode(), "").replace("\r", "")


@contextmanager
def user(name: str, *, root: bool = False) -> Iterator[str]:
    """An ordinary one, or another root without anybody's habits, for as long as it is needed."""
    home, same = f"/tmp/{name}", ["-o", "-u", "0"] if root else []
    subprocess.run(["useradd", *same, "-m", "-d", home, "-s", "/bin/bash", name], check=True)
    subprocess.run(["usermod", "-p", "*", name], check=True)  # no password, and not locked
    try:
        yield name
    finally:
        subprocess.run(["userdel", "-f", "-r", name], check=False, capture_output=True)


def quoted(*words: str | Path) -> str:
    return shlex.join(map(str, words))
