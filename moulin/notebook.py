"""HTML of lakes, tables, scans and histories for notebooks; every value is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LONGEST = 200  # characters of a cell
MOST_ROWS = 50


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, more: int = 0) -> str:
    """A table with a caption. `more` is the number of rows not shown."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    return f"<p>{escape(caption)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


__all__ = ["MOST_ROWS", "html_table"]
