"""Bad input: one clear line that names the thing and the mend, and exit status 2."""

from __future__ import annotations

EXIT_STATUS = 2


class Problem(Exception):
    """Something that the user gave cannot be used. `mend` says what to do about it."""

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(f"{what}: {mend}" if mend else what)
