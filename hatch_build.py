"""The build hook: the wheel carries the BPF objects of every architecture, and bcc's sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ObjectsHook(BuildHookInterface[Any]):
    """`pip install .` and `pip install -e .` both leave them in probe/engine/objects."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel":
            subprocess.run([sys.executable, str(Path(self.root) / "bpf" / "build.py")], check=True)
            build_data["artifacts"].append("probe/engine/objects/*.o")
        if self.target_name == "wheel" and version == "standard":
            # An editable install finds them where they are written.
            build_data["force_include"]["bpf"] = "probe/engine/sources"
