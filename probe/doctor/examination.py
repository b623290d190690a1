"""All sections of one sandbox, looked at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from probe.doctor import clock, kernel, limits, mounts, network, privileges, senses, syscalls, tools
from probe.doctor.findings import Finding, findings

if TYPE_CHECKING:
    from probe.events import JsonObject

SCHEMA_ID = "probe.doctor/1"


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
        return findings(self)

    def as_json(self) -> JsonObject:
        """See doctor.schema.json. Unknown extra fields may be added."""
        return {
            "schema": SCHEMA_ID,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "findings": [finding.as_json() for finding in self.findings()],
            **{
                one.name: dataclasses.asdict(getattr(self, one.name))
                for one in dataclasses.fields(self)
            },
        }


def examine(targets: Sequence[str] = ()) -> Examination:
    """Looks at this sandbox; `targets` are what to connect to, "host:port" each.

    Sections that fork come first, while no other thread runs; those that wait for
    others come last.
    """
    for target in targets:
        network.split_target(target)
    engine = senses.start()
    try:
        return Examination(
            syscalls=syscalls.examine(privileges.status(), engine),
            privileges=privileges.examine(),
            senses=senses.examine(engine),
            limits=limits.examine(),
            mounts=mounts.examine(),
            clock=clock.examine(),
            kernel=kernel.examine(),
            tools=tools.examine(),
            network=network.examine(targets),
        )
    finally:
        if not isinstance(engine, Exception):
            engine.close()
