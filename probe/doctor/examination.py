"""All sections of one sandbox, looked at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

from probe.doctor import clock, kernel, limits, mounts, network, privileges, senses, syscalls, tools
from probe.doctor.apart import LostError, apart
from probe.doctor.findings import Finding, findings
from probe.doctor.section import Section

if TYPE_CHECKING:
    from probe.engine.choice import Choice
    from probe.events import JsonObject

SCHEMA_ID = "probe.doctor/1"
Kind = TypeVar("Kind", bound=Section)


@dataclass
class Examination:
    """The order is that in which the sections are told."""

    syscalls: syscalls.Syscalls
    privileges: privileges.Privileges
    limits: limits.Limits
    mounts: mounts.Mounts
    network: network.Network
    clock: clock.Clock
    kernel: kernel.Kernel
    tools: tools.Tools
    senses: senses.Senses

    def findings(self) -> list[Finding]:
        """What is likely to break work, most likely first."""
        return findings(self._sections())

    def as_json(self) -> JsonObject:
        """See doctor.schema.json. Unknown extra fields may be added."""
        return {
            "schema": SCHEMA_ID,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "findings": [finding.as_json() for finding in self.findings()],
            **{name: dataclasses.asdict(section) for name, section in self._sections().items()},
        }

    def _sections(self) -> dict[str, Section]:
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}


def examine(targets: Sequence[str] = ()) -> Examination:
    """Looks at this sandbox; `targets` are what to connect to, "host:port" each.

    A section whose examination is the end of whoever examines is lost, and no other.
    """
    for target in targets:
        network.split_target(target)
    seen, calls = _watching()
    return Examination(
        syscalls=calls,
        privileges=_section(privileges.Privileges, privileges.examine),
        limits=_section(limits.Limits, limits.examine),
        mounts=_section(mounts.Mounts, mounts.examine),
        network=_section(network.Network, lambda: network.examine(targets)),
        clock=_section(clock.Clock, clock.examine),
        kernel=_section(kernel.Kernel, kernel.examine),
        tools=_section(tools.Tools, tools.examine),
        senses=seen,
    )


def _section(kind: type[Kind], find: Callable[[], Kind]) -> Kind:
    try:
        return apart(find)
    except LostError as error:
        return kind.lost(str(error))


def _watching() -> tuple[senses.Senses, syscalls.Syscalls]:
    """What needs an engine, without which the syscalls can be learned in another way."""
    try:
        return apart(lambda: _with(senses.start()))
    except LostError as error:
        without = error
        seen = senses.blind(error)
        return seen, _section(
            syscalls.Syscalls, lambda: syscalls.examine(privileges.status(), without)
        )


def _with(choice: Choice | Exception) -> tuple[senses.Senses, syscalls.Syscalls]:
    return senses.examine(choice), syscalls.examine(privileges.status(), choice)
