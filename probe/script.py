#!python
"""The command `probe`."""

import os
import sys

# What a workload puts on PYTHONPATH is for it, and must not stand in for a module of ours.
_theirs = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
sys.path.sort(key=lambda p: os.path.abspath(p) in _theirs)

from probe.cli import main  # noqa: E402

main()
