"""A corpus of a thousand workflows, and the sandboxes in which they are tried.

What coding agents and browser agents do all day, each with a check of its own result: the
measure of whether an explanation is right is what a workflow needs beside what a profile allows.
"""

from __future__ import annotations

from collector.campaign.profiles import PROFILES, profile
from collector.campaign.verdict import expected
from collector.campaign.workflow import Workflow, corpus

__all__ = ["PROFILES", "Workflow", "corpus", "expected", "profile"]
