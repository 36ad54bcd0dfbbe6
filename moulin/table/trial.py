"""Trials: branches that are published when everything that is expected of them holds, and dropped otherwise."""

# Decisions: docs/decisions/0412

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from moulin.errors import FailedPrecondition, InvalidInput, NotFound

if TYPE_CHECKING:
    from moulin.table.publishing import Publication


@dataclass(slots=True)
class Expectations:
    """What is expected of a branch: conditions, each with the words that name it, looked at when the trial ends."""

    _listed: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def add(self, condition: object, message: str | None, branch: Any, ask: Callable[[str], object]) -> None:
        """Expect a query to give only true values, a function of the branch to return a true one, or a truth."""
        if isinstance(condition, str):
            text = condition
            self._listed.append((message or text, lambda: ask(text)))
        elif callable(condition):
            check = condition
            name = str(getattr(check, "__name__", repr(check)))
            self._listed.append((message or name, lambda: check(branch)))
        elif isinstance(condition, bool) or type(condition).__name__ == "bool_":
            held = bool(condition)
            self._listed.append((message or f"expectation {len(self._listed) + 1}", lambda: held))
        else:
            raise InvalidInput(
                f"expect takes a query, a function of the branch or a truth, not {type(condition).__name__}."
            )

    def failed(self) -> list[str]:
        """The words of those that do not hold."""
        return [words for words, look in self._listed if not look()]


def holds(rows: Sequence[Sequence[object]]) -> bool:
    """Whether the result of a query says that an expectation holds: there are rows, and all their values are true."""
    return bool(rows) and all(value is not None and bool(value) for row in rows for value in row)


class Trial:
    """The `with` block of a trial; see `Lake.trial`. `publication` is what it brought to main, once it has."""

    def __init__(
        self,
        name: str,
        begin: Callable[[Expectations], Any],
        publish: Callable[[], Publication],
        drop: Callable[[], object],
    ) -> None:
        self.name = name
        self._begin, self._publish, self._drop = begin, publish, drop
        self._expected = Expectations()
        self.publication: Publication | None = None

    def __enter__(self) -> Any:
        return self._begin(self._expected)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                if failed := self._expected.failed():
                    listed = "; ".join(failed)
                    raise FailedPrecondition(
                        f"Trial {self.name!r} was not published, as this does not hold: {listed}. Its branch was "
                        f"dropped; lake.resurrect_branch({self.name!r}) brings it back for a look."
                    )
                self.publication = self._publish()
        finally:
            if self.publication is None:
                with suppress(NotFound):  # it may have been published, and what followed failed
                    self._drop()
