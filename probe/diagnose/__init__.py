"""Why did it fail? Pure functions from what is known of one span to ranked causes."""

from __future__ import annotations

from probe.diagnose.case import Case, Dismissal, Explanation, Finding, SandboxState, make_case
from probe.diagnose.explain import explain

__all__ = ["Case", "Dismissal", "Explanation", "Finding", "SandboxState", "explain", "make_case"]
