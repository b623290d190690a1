"""Making a sandbox for one command at a time, as a profile describes it.

A sandbox is a prefix of a command line, so it can be put around any command, watched from
inside or outside, and needs no daemon. Who makes it is a driver: bubblewrap, runc or podman.
"""

from __future__ import annotations

from collector.sandbox.making import Sandbox
from collector.sandbox.profile import Profile
from collector.sandbox.seccomp import compile_filter

__all__ = ["Profile", "Sandbox", "compile_filter"]
