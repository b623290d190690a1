"""One case on its way to a collector, for a `probe run` without an agent."""

from __future__ import annotations

from probe.access import Access
from probe.diagnose import Case
from probe.stream import Stream

TIMEOUT_S = 5.0


def send_case(access: Access, case: Case) -> bool:
    """True when the collector has stored it; False when it did not within TIMEOUT_S."""
    stream = Stream(access, sandbox=case.span.sandbox, boot=case.span.boot, coverage=case.coverage)
    try:
        for event in case.events:
            stream.put_event(event)
        stream.put_span(case.span, case.coverage, case.losses)
        return stream.drain(TIMEOUT_S)
    finally:
        stream.close()
