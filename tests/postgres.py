"""A PostgreSQL server of a test's own: Debian's, in a temporary directory, on a Unix socket."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

USER = "collector"
_LIMIT_S = 60.0


def _programs() -> Path:
    """Debian keeps the server's programs off PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: one.parts[-2])
    if versions:
        return versions[-1]
    found = shutil.which("postgres")
    assert found, "no PostgreSQL server here: make setup installs it"
    return Path(found).resolve().parent


class Server:
    """PostgreSQL refuses to run as root, so there it runs as nobody.

    `durable`: it waits for the disk at each commit, as it does by default.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path is limited
        self._as: list[str] = []
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            ids = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")
            self._as = ["setpriv", *ids, "--"]  # Popen(user=) forks, which gRPC does not bear
        self._databases = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-U", USER, "-A", "trust", "--no-sync", "-D", self.folder / "data")
        self.start()

    def start(self) -> None:
        """Until it answers. What a killed one left in shared memory takes a moment to go."""
        end = time.monotonic() + _LIMIT_S
        while not self._answers():
            assert time.monotonic() < end, (self.folder / "log").read_text()[-2000:]
            if self.process is None or self.process.poll() is not None:
                self._launch()
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends it at once and in order; SIGKILL as a crash would."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(_LIMIT_S)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def database(self) -> str:
        """The URL of a new, empty one."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://{USER}@/{name}?host={quote(str(self.folder), safe='')}"

    def _launch(self) -> None:
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
        if not self._durable:
            options += ["-c", "fsync=off", "-c", "max_wal_size=256MB"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._as, _programs() / "postgres", "-D", self.folder / "data", *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*self._as, _programs() / program, *arguments]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=self.folder)
