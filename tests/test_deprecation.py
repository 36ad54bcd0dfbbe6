"""Old names work and warn, with the line of the caller."""

from __future__ import annotations

import inspect

import pytest

from moulin.deprecation import renamed, warn_renamed


class Shelf:
    def get_batch(self, keys: list[int], *, order: bool = True, sorted_by: str | None = None) -> list[int]:
        if sorted_by is not None:
            warn_renamed("sorted_by=", "order=")
            order = True
        return sorted(keys) if order else keys

    get_many = renamed(get_batch, "Shelf.get_many")


def test_a_renamed_method_does_the_same_and_warns_at_its_caller() -> None:
    with pytest.warns(DeprecationWarning, match=r"^Shelf\.get_many is now Shelf\.get_batch\.") as caught:
        assert Shelf().get_many([3, 1], order=False) == [3, 1]
    assert caught[0].filename == __file__
    assert inspect.signature(Shelf.get_many) == inspect.signature(Shelf.get_batch)
    assert "Deprecated" in (Shelf.get_many.__doc__ or "")


def call_with_the_old_argument() -> list[int]:
    return Shelf().get_batch([3, 1], order=False, sorted_by="key")


def test_a_renamed_argument_warns_at_its_caller() -> None:
    with pytest.warns(DeprecationWarning, match=r"^sorted_by= is now order=\.") as caught:
        assert call_with_the_old_argument() == [1, 3]
    first = call_with_the_old_argument.__code__.co_firstlineno
    assert (caught[0].filename, caught[0].lineno) == (__file__, first + 1)


def test_a_new_name_does_not_warn() -> None:
    assert Shelf().get_batch([3, 1]) == [1, 3]


def test_an_old_name_fails_a_test_that_does_not_expect_it() -> None:
    with pytest.raises(DeprecationWarning, match="get_batch"):
        Shelf().get_many([1])
