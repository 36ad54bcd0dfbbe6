"""The interface of an attached session to a lake's Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from moulin.lake import Lake
from moulin.pipeline.sql.catalyst import CATALOG, LogicalPlan, on_branches


class Attached(Protocol):
    """Implemented by `moulin.pipeline.spark.LakeSpark`."""

    @property
    def lake(self) -> Lake: ...

    def has_database(self, name: str) -> bool:
        """Whether the lake has a database of this name."""

    def names_lake(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> bool:
        """Whether a statement is for the lake."""

    def run(
        self,
        text: str,
        args: Mapping[str, Any] | Sequence[Any] | None,
        guard: None,
        *,
        changes: bool,
        foreign: bool,
    ) -> DataFrame:
        """Run a statement; with `foreign`, names outside of the lake are left to Spark."""

    def rows(self, database: str, name: str) -> DataFrame:
        """All rows of a table or view of the lake."""

    def loaded(self, options: Mapping[str, str], columns: StructType | None) -> DataFrame | None:
        """The rows that options of `format("moulin")` name, in these columns; None where Spark's source reads them."""

    def change(self, plan: LogicalPlan, guard: None, *, foreign: bool) -> DataFrame:
        """Run a statement that Spark has planned and that changes a table of the lake."""


def lake_name(attached: Attached, written: str) -> tuple[str, str] | None:
    """Database and name of a table that is written as in SQL, if its database is one of the lake."""
    parts = _parts(on_branches(written))
    if len(parts) == 3 and parts[0].lower() == CATALOG:
        return parts[1], parts[2]
    if len(parts) == 2 and attached.has_database(parts[0]):
        return parts[0], parts[1]
    return None


def _parts(written: str) -> list[str]:
    """The parts of a name, which may stand between backquotes."""
    parts, part, quoted = [], "", False
    for character in written:
        if character == "`":
            quoted = not quoted
        elif character == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += character
    return [*parts, part]
