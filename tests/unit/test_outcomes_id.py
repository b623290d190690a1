"""Spellings of one test id meet in one canonical form."""

from __future__ import annotations

import pytest

from collector.test_id import canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tests/test_x.py::TestC::test_name", "tests.test_x.TestC.test_name"),
        ("./tests/test_x.py::test_name", "tests.test_x.test_name"),
        ("tests/test_x.py::test_name[a/b.py::c#d]", "tests.test_x.test_name[a/b.py::c#d]"),
        ("com.acme.PayTest#charges", "com.acme.PayTest.charges"),
    ],
)
def test_two_spellings(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize("test", ["t1", "example.com/shop.TestCart/empty", "crate::module::test"])
def test_different_tests_stay_different(test: str) -> None:
    assert canonical(test) != canonical(test + "x")
