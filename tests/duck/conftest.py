"""A lake in a folder, and its rows as a scan and as DuckDB give them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as opened:
        opened.create_database("d")
        yield opened


def rows(connection: Any, text: str) -> list[dict[str, Any]]:
    """The rows of a query as Python values."""
    found = connection.execute(text)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
