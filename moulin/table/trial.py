"""Trials: branches that are published if all expectations hold, and dropped otherwise."""

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
    """The expectations of a branch: conditions with descriptions, checked when the trial ends."""

    _listed: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def add(self, condition: object, message: str | None, branch: Any, ask: Callable[[str], object]) -> None:
        """Expect all values of a query, the result of a function of the branch, or a bool to be true."""
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
                f"expect takes a query, a function of the branch or a bool, not {type(condition).__name__}."
            )

    def failed(self) -> list[str]:
        """The descriptions of the expectations that do not hold."""
        return [words for words, look in self._listed if not look()]


def holds(rows: Sequence[Sequence[object]]) -> bool:
    """Whether a query result fulfils an expectation: there are rows, and all their values are true."""
    return bool(rows) and all(value is not None and bool(value) for row in rows for value in row)


class Trial:
    """The `with` block of a trial; see `Lake.trial`. `publication` is the result of publishing it."""

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
                        f"Trial {self.name!r} was not published, because these expectations failed: {listed}. Its "
                        f"branch was "
                        f"dropped; lake.resurrect_branch({self.name!r}) restores it for inspection."
                    )
                self.publication = self._publish()
        finally:
            if self.publication is None:
                with suppress(NotFound):  # it may have been published, and a later step failed
                    self._drop()
