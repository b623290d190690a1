"""What the test harness said of each test, read from the files it writes."""

from __future__ import annotations

from collector.outcomes.outcome import Outcome
from collector.outcomes.read import read

__all__ = ["Outcome", "read"]
