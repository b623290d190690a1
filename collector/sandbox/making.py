"""One sandbox: its driver, and the network that the driver is started in."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from collector.sandbox.bubblewrap import Bubblewrap
from collector.sandbox.podman import Podman
from collector.sandbox.profile import Profile
from collector.sandbox.runc import Runc
from probe.problem import Problem


class Driver(Protocol):
    """Makes the sandbox itself. The constructor raises Problem where it may not."""

    def outer(self) -> list[str]:
        """The prefix that comes before all others."""

    def inner(self, argv: Sequence[str], folder: str) -> list[str]:
        """The command line that runs `argv` inside, in a directory there."""

    def close(self) -> None:
        """Removes what it has made, and ends what still runs there."""


DRIVERS: dict[str, Callable[[Profile, str, Path], Driver]] = {
    "bubblewrap": Bubblewrap,
    "runc": Runc,
    "podman": Podman,
}


class Sandbox:
    """A profile in force. A context manager: what it has made goes with it."""

    def __init__(self, profile: Profile, name: str) -> None:
        """Problem where there is no such driver."""
        if profile.driver not in DRIVERS:
            raise Problem(f"no driver {profile.driver!r}", f"use one of {', '.join(DRIVERS)}")
        self.profile = profile
        self.name = name
        self._folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
        self._driver: Driver | None = None

    def __enter__(self) -> Sandbox:
        """Problem where the driver cannot make it."""
        try:
            self._driver = DRIVERS[self.profile.driver](self.profile, self.name, self._folder)
        except Problem:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def command(self, argv: Sequence[str], folder: str | None = None) -> list[str]:
        """The command line that runs `argv` in this sandbox, in a directory of the same name
        there as here; the one that is current where none is given."""
        assert self._driver is not None, "only in a with statement"
        network = self._in_network()
        inner = self._driver.inner([*self._in_landlock(), *argv], folder or os.getcwd())
        return [*self._driver.outer(), *network, *(self.profile.nameserver or ()), *inner]

    def _in_network(self) -> list[str]:
        own = self.profile.firewall is not None or self.profile.nameserver is not None
        if self.profile.network == "host" and not own:
            return []
        if self.profile.network == "none":
            return ["unshare", "--net"]
        steps = ["ip link set lo up"]
        if self.profile.firewall is not None:
            rules = self._folder / "firewall.nft"
            rules.write_text(self.profile.firewall)
            steps.append(f"nft -f {rules}")
        if self.profile.nameserver is not None:
            resolver = self._folder / "resolv.conf"
            resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
            steps.append(f"mount --bind {resolver} /etc/resolv.conf")
        namespaces = ["unshare", "--net", "--mount"]
        return [*namespaces, "sh", "-c", f'{" && ".join(steps)} && exec "$@"', "sandbox"]

    def _in_landlock(self) -> list[str]:
        if self.profile.landlock is None:
            return []
        module = str(Path(__file__).with_name("landlock.py"))
        return [sys.executable, module, *self.profile.landlock, "--"]
