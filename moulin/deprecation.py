"""Renamed functions, arguments and commands: the old name keeps working for one release, and warns.

The policy is in docs/compatibility.md. A renamed function keeps its old name with `renamed`; a renamed argument and a
renamed command call `warn_renamed` if the old name is used:

    get_many = renamed(get_batch, "Table.get_many")

Tests turn warnings into errors, so a test of an old name must expect the warning:

    with pytest.warns(DeprecationWarning, match="get_batch"):
        table.get_many([1])
"""

# Decisions: docs/decisions/0217

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def warn_renamed(old: str, new: str, *, stacklevel: int = 2) -> str:
    """Warn that `old` is now called `new`, and return the message, for commands to print.

    The warning points to the caller of the calling function; each function in between adds 1 to
    `stacklevel`.
    """
    sentence = f"{old} is now {new}. The old name is deprecated and will be removed in the next release."
    warnings.warn(sentence, DeprecationWarning, stacklevel=stacklevel + 1)
    return sentence


def renamed(function: Callable[P, R], old: str) -> Callable[P, R]:
    """`function` under its old name: warns when it is called."""

    @functools.wraps(function)
    def under_the_old_name(*arguments: P.args, **options: P.kwargs) -> R:
        warn_renamed(old, getattr(function, "__qualname__", str(function)))
        return function(*arguments, **options)

    under_the_old_name.__doc__ = f"Deprecated: the old name of `{getattr(function, '__name__', function)}`."
    return under_the_old_name
