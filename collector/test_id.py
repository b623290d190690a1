"""One test, several spellings: what makes them the same."""

from __future__ import annotations


def canonical(test: str) -> str:
    """The dotted form of a test id.

    `tests/test_x.py::TestC::test_name[a/b]` (pytest's node id), `tests.test_x.TestC.test_name[a/b]`
    (classname and name in its JUnit XML) and Maven's `package.Class#method` come out dotted.
    """
    head, bracket, parameters = test.partition("[")
    path, *names = head.split("::")
    if path.endswith(".py"):
        path = path.removeprefix("./").removesuffix(".py").replace("/", ".")
    return ".".join([path, *names]).replace("#", ".") + bracket + parameters
