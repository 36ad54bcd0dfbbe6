"""Retries of commits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moulin.catalog.commit.table_commit import Stale
from moulin.errors import Conflict, MoulinError, NotFound, Unavailable
from moulin.model.conflicts import Verdict
from moulin.table.commit.retry import must_rebase, must_recompute, retry

RACE = Stale("lost", Verdict.RETRY)


def failing(errors: list[MoulinError]) -> Callable[[], str]:
    """Raises these errors, one at a time, and then succeeds."""

    def run() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    return run


def test_an_operation_that_loses_races_runs_again_until_it_wins() -> None:
    waits: list[int] = []
    assert retry(16, failing([RACE, RACE]), wait=waits.append) == "done"
    assert waits == [1, 2]


def test_the_error_of_the_last_attempt_is_raised() -> None:
    waits: list[int] = []
    last = Stale("the last", Verdict.RETRY)
    left: list[MoulinError] = [RACE, RACE, last, RACE]
    with pytest.raises(Stale, match="the last"):
        retry(3, failing(left), wait=waits.append)
    assert (left, waits) == ([RACE], [1, 2]), "nobody waits after the last attempt"


@pytest.mark.parametrize("error", [NotFound("gone"), Stale("no", Verdict.CONFLICT), Stale("no", Verdict.REBASE)])
def test_an_error_that_another_attempt_would_meet_again_is_raised_at_once(error: MoulinError) -> None:
    left: list[MoulinError] = [error, RACE]
    with pytest.raises(type(error)):
        retry(16, failing(left))
    assert left == [RACE]


def test_the_caller_chooses_which_errors_count() -> None:
    def lost_answer(error: MoulinError) -> bool:
        return isinstance(error, Unavailable)

    assert retry(2, failing([Unavailable("?")]), lost_answer, lambda attempt: None) == "done"
    with pytest.raises(Conflict):
        retry(2, failing([Conflict("!")]), lost_answer, lambda attempt: None)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_verdict_of_the_catalog_says_what_to_do(verdict: Verdict) -> None:
    error = Stale("lost", verdict)
    assert must_rebase(error) == (verdict is Verdict.REBASE)
    assert must_recompute(error) == (verdict is Verdict.RETRY)
