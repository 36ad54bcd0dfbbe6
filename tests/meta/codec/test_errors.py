"""Errors keep their kind, message and figures on the way through gRPC."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from moulin import errors
from moulin.catalog.commit.table_commit import Stale
from moulin.errors import Conflict, MoulinError
from moulin.meta.codec import errors as status
from moulin.model.conflicts import Verdict

NAMED = [getattr(errors, name) for name in errors.__all__]
KINDS = [kind for kind in NAMED if isinstance(kind, type) and kind is not MoulinError]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_code_and_comes_back_as_itself(kind: type[MoulinError]) -> None:
    error = kind("Nothing there – look elsewhere.")
    assert status.code_of(error) is not grpc.StatusCode.INTERNAL
    back = status.from_message_error(status.to_message_error(error))
    assert (type(back), back.message) == (kind, error.message)


@pytest.mark.parametrize(
    "error",
    [
        Conflict("Lost.", requirement="segment 4", expected="live", found="gone", winner=7),
        Conflict("Lost.", requirement="the vector", expected=3, found=None),
        Stale("Lost.", Verdict.REBASE, requirement="r", expected=1, found=2, winner=9),
    ],
)
def test_a_conflict_keeps_its_figures(error: Conflict) -> None:
    back: Any = status.from_message_error(status.to_message_error(error))
    assert type(back) is type(error)
    for field in ("message", "requirement", "expected", "found", "winner", "verdict"):
        assert getattr(back, field, None) == getattr(error, field, None)


def test_an_error_of_no_known_kind_is_internal_and_comes_back_as_the_root() -> None:
    error = MoulinError("Odd.")
    assert status.code_of(error) is grpc.StatusCode.INTERNAL
    assert type(status.from_message_error(status.to_message_error(error))) is MoulinError


def test_a_long_message_is_cut_so_that_the_answer_fits() -> None:
    assert len(status.to_message_error(errors.NotFound("x" * 100_000)).SerializeToString()) < 3000
