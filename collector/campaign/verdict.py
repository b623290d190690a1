"""What an explanation of a workflow in a profile must say, by what the two of them are."""

from __future__ import annotations

from collector.campaign import needs
from collector.campaign.profiles import profile
from collector.campaign.workflow import Workflow
from collector.sandbox import Profile

_MIB = 1 << 20
PASSES = frozenset({"none"})
OWN_FAULT = frozenset({"workload.failed", "workload.crashed"})
_UNREACHABLE = frozenset(
    {"net.unreachable", "net.dns_unreachable", "net.dns_failed", "net.dns_not_found"}
)


def expected(workflow: Workflow, name: str) -> frozenset[str]:
    """The causes that count as right for the workflow in the profile of that name."""
    bites = _bites(workflow.needs, profile(name, workflow.application))
    if workflow.bug:
        return bites | OWN_FAULT
    return bites or PASSES


def _bites(wanted: frozenset[str], allowed: Profile) -> frozenset[str]:
    """The causes by which the profile fails what needs this."""
    found: set[str] = set()
    if allowed.memory is not None and needs.memory(wanted) * _MIB > allowed.memory:
        found.add("memory.cgroup_oom")
    if needs.syscalls(wanted) & allowed.seccomp.keys():
        found.add("seccomp.denied")
    if needs.NETWORK in wanted and allowed.network != "host":
        found |= _UNREACHABLE
    if needs.WRITE_ROOT in wanted and allowed.read_only:
        found.add("fs.read_only")
    if needs.EXEC_TMP in wanted and "/tmp" in allowed.noexec:
        found.add("exec.noexec_mount")
    return frozenset(found)
