"""A lake without Spark and Iceberg, and one that was closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.errors import Closed, FailedPrecondition

Use = Callable[[Lake, Table], Any]


class Frame:
    """Looks like a Spark DataFrame."""

    mapInArrow = None  # noqa: N815 - as Spark calls it


USES: dict[str, Use] = {
    "sql": lambda lake, table: lake.sql("select 1"),
    "spark": lambda lake, table: lake.spark(),
    "to_spark": lambda lake, table: table.to_spark(),
    "append": lambda lake, table: table.append(Frame()),
    "overwrite": lambda lake, table: table.overwrite(Frame()),
    "backfill": lambda lake, table: table.backfill("files"),
}


@pytest.fixture(params=["events", "keyed"])
def table(lake: Lake, request: pytest.FixtureRequest) -> Table:
    key = ["id"] if request.param == "keyed" else []
    return lake.create_table("shop.items", [("id", "long")], primary_key=key)


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        yield lake


@pytest.mark.parametrize("use", USES)
def test_a_lake_without_spark_says_how_to_get_it(lake: Lake, table: Table, use: str) -> None:
    version = lake.version
    with pytest.raises(FailedPrecondition, match=r"without Spark; open it with moulin\.connect"):
        USES[use](lake, table)
    assert lake.version == version


def test_a_merge_of_a_frame_needs_spark(lake: Lake) -> None:
    table = lake.create_table("shop.items", [("id", "long")], primary_key=["id"])
    with pytest.raises(FailedPrecondition, match="without Spark"):
        table.merge(Frame())


def test_a_lake_without_iceberg_says_how_to_get_it(lake: Lake, table: Table, tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match=r"without Iceberg; open it with moulin\.connect"):
        table.export_iceberg(tmp_path / "out")


@pytest.mark.parametrize("use", ["sql", "spark", "to_spark"])
def test_a_closed_lake_starts_no_spark(tmp_path: Path, use: str) -> None:
    made: list[object] = []
    with Lake.open(tmp_path / "lake", make_spark=made.append) as lake:  # type: ignore[arg-type]
        lake.create_database("shop")
        table = lake.create_table("shop.items", [("id", "long")])
    with pytest.raises(Closed, match="The lake was closed"):
        USES[use](lake, table)
    assert made == []


def test_connect_gives_a_lake_both(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        assert lake.context.exporter is not None
        assert lake.context.make_spark is not None
