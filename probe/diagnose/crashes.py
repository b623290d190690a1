"""Signals by which a program ends itself (signal(7)), as against those that others send."""

from __future__ import annotations

ACCIDENTS = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE"})
GIVING_UP = frozenset({"SIGILL", "SIGABRT", "SIGTRAP"})  # abort(3), and traps of compilers
CRASHES = ACCIDENTS | GIVING_UP | {"SIGSYS"}
