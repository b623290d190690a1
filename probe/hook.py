"""What a shell may source, so that `probe why` shows the last command as it was typed.

`probe why` needs none of it: the kernel knows what was started. Only the shell knows the line.
"""

from __future__ import annotations

# fc(1p) lists the line before the one that is being run.
_POSIX = """probe() {
    PROBE_TYPED="$(fc -ln -1 2>/dev/null)" command probe "$@"
}
"""
_FISH = """function probe
    set -lx PROBE_TYPED $history[1]
    command probe $argv
end
"""

HOOKS = {"bash": _POSIX, "zsh": _POSIX, "fish": _FISH}
