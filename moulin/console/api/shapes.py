"""Values as the API shows them: 64-bit numbers as text, since JavaScript has none, and cells of rows as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Generic, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from moulin.model.rows.nano_datetime import to_rows

Int64 = Annotated[
    int, PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "pattern": "^-?[0-9]+$"})
]
"""A number of up to 64 bits, as text. Times are Unix nanoseconds."""

Item = TypeVar("Item")
LONGEST_TEXT: Final = 2000
_SAFE: Final = 1 << 53
_MOST_ITEMS: Final = 100


class Shape(BaseModel):
    """A JSON object of the API. What comes in holds nothing that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Page(Shape, Generic[Item]):
    """One page of a list. Without `next_cursor` it is the last."""

    items: list[Item]
    next_cursor: str | None = None


class Done(Shape):
    """The version of the lake that has a change."""

    version: Int64


class Column(Shape):
    name: str
    type: str


class Rows(Shape):
    """Some rows. Whole numbers past 2^53, decimals, times and bytes are text; `cut` says that a long value was."""

    version: Int64
    columns: list[Column]
    rows: list[list[Any]]
    more: bool
    cut: bool


def rows_of(table: pa.Table, version: int, *, more: bool) -> Rows:
    cutter = Cutter()
    columns = [Column(name=field.name, type=str(field.type)) for field in table.schema]
    rows = [[cutter.cell(value) for value in row.values()] for row in to_rows(table, pairs=True)]
    return Rows(version=version, columns=columns, rows=rows, more=more, cut=cutter.cut)


class Cutter:
    """Makes JSON of values, and remembers whether one was cut."""

    def __init__(self, longest: int = LONGEST_TEXT) -> None:
        self.cut = False
        self._longest = longest

    def cell(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -_SAFE < value < _SAFE else str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._text(bytes(value[: self._longest // 2 + 1]).hex())
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.cell(one) for key, one in self._few(list(value.items()))}
        if isinstance(value, list | tuple):
            return [self.cell(one) for one in self._few(value)]
        return self._text(value if isinstance(value, str) else str(value))

    def _few(self, items: Any) -> Any:
        self.cut = self.cut or len(items) > _MOST_ITEMS
        return items[:_MOST_ITEMS]

    def _text(self, text: str) -> str:
        if len(text) <= self._longest:
            return text
        self.cut = True
        return text[: self._longest] + "…"
