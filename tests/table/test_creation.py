"""create_table with rows: one version has the table and all of its rows, or there is neither."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import AlreadyExists, InvalidInput, MoulinError, NotFound
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.storage.store import open_store
from tests.commands import fork
from tests.interop.engines import pyiceberg
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
COLUMNS = [("tenant", "string"), ("id", "long"), ("x", "string")]
ROWS = [{"tenant": tenant, "id": number, "x": f"{tenant}{number}"} for tenant in "abc" for number in range(4)]
KINDS: dict[str, dict[str, Any]] = {
    "event": {"partition_by": ["tenant"]},
    "keyed": {"primary_key": ["tenant", "id"]},
    "split": {"primary_key": ["tenant", "id"], "properties": {"moulin.regions": "tenant"}},
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def content(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_pylist(), key=lambda row: (row["tenant"], row["id"]))


@everywhere
@kinds
def test_a_table_comes_with_its_rows_in_one_version(lake: Lake, kind: str) -> None:
    before = lake.version
    table = lake.create_table("shop.t", COLUMNS, data=ROWS, **KINDS[kind])
    assert lake.version == table.version == before + 1
    assert content(table) == ROWS
    assert [info.kind for info in table.history()] == ["append" if kind == "event" else "upsert", "create"]
    assert sorted(row["_row_id"] for row in table.scan(["_row_id"]).to_pylist()) == list(range(len(ROWS)))
    with pytest.raises(NotFound, match="created at version"):
        table.at(before)
    assert table.changes(table.version).to_arrow().num_rows == 0
    if kind == "event":
        return
    table.append([{**ROWS[0], "x": "new"}])
    table.put({**ROWS[-1], "x": "newer"})
    assert content(table) == [{**ROWS[0], "x": "new"}, *ROWS[1:-1], {**ROWS[-1], "x": "newer"}]


@everywhere
@kinds
def test_a_table_is_replaced_by_one_with_rows_in_one_version(lake: Lake, kind: str) -> None:
    old = lake.create_table("shop.t", [("id", "long")], data=[{"id": 1}])
    before = lake.version
    new = lake.create_table("shop.t", COLUMNS, data=ROWS, replace=True, **KINDS[kind])
    assert lake.version == before + 1
    assert new.id != old.id
    assert content(lake.table("shop.t")) == ROWS
    lake.rename_table("shop.t", "shop.new")
    lake.resurrect_table("shop.t")
    assert lake.table("shop.t").scan().to_pylist() == [{"id": 1}]


def test_rows_that_do_not_fit_make_no_table(lake: Lake) -> None:
    before = lake.version
    for bad in ([{"id": "x"}], [*ROWS, ROWS[0]], [{"tenant": None, "id": 1}], [{"y": 1}]):
        with pytest.raises(MoulinError):
            lake.create_table("shop.t", COLUMNS, data=bad, primary_key=["tenant", "id"])
    assert lake.version == before
    assert lake.tables("shop") == []
    lake.create_table("shop.t", COLUMNS, data=[])
    with pytest.raises(AlreadyExists):
        lake.create_table("shop.t", COLUMNS, data=ROWS)
    assert lake.create_table("shop.t", COLUMNS, data=ROWS, if_not_exists=True).scan().count() == 0
    with pytest.raises(InvalidInput, match="replace and if_not_exists"):
        lake.create_table("shop.t", COLUMNS, replace=True, if_not_exists=True)


@pytest.mark.parametrize("open_lake", ["folder"], indirect=True)
@kinds
def test_recovery_and_engines_know_a_table_by_its_only_version(lake: Lake, kind: str, tmp_path: Path) -> None:
    table = lake.create_table("shop.t", COLUMNS, data=ROWS, **KINDS[kind])
    made = project(lake.context, table.id)
    assert check(made.location, every_snapshot=True) == []
    assert sorted(pyiceberg(made.location)["x"].to_pylist()) == [row["x"] for row in ROWS]
    lake.close()
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    recover(open_store(tmp_path / "lake"), f"sqlite:///{tmp_path / 'lake' / 'catalog.sqlite'}", Config())
    with Lake.open(tmp_path / "lake") as again:
        table = again.table("shop.t")
        assert content(table) == ROWS
        if kind != "event":
            table.append([{**ROWS[0], "x": "new"}])
            assert content(table) == [{**ROWS[0], "x": "new"}, *ROWS[1:]]


@pytest.mark.parametrize("open_lake", ["folder"], indirect=True)
def test_regions_of_a_bulk_write_stay_theirs_after_a_recovery(lake: Lake, tmp_path: Path) -> None:
    """Manifests did not name a region that only bulk writes had: a key that was written again was there twice."""
    lake.create_table("shop.t", COLUMNS, **KINDS["split"]).append(ROWS)
    lake.close()
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    recover(open_store(tmp_path / "lake"), f"sqlite:///{tmp_path / 'lake' / 'catalog.sqlite'}", Config())
    with Lake.open(tmp_path / "lake") as again:
        table = again.table("shop.t")
        table.append([{**ROWS[0], "x": "new"}])
        assert content(table) == [{**ROWS[0], "x": "new"}, *ROWS[1:]]


def _die(path: str, kind: str, step: str) -> None:
    """Make a table of rows, and be killed before the commit, in it, or after it."""
    lake = Lake.open(path)

    def killed(*args: Any, **more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def then_killed(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **more: (run(*args, **more), killed())

    if step == "before the commit":
        lake.catalog.create_table = killed  # type: ignore[method-assign]
    elif step == "in the commit":
        from moulin.catalog.commit import commit

        commit.fill = then_killed(commit.fill)
    else:
        Catalog._publish = killed  # type: ignore[method-assign]
    lake.create_table("shop.t", COLUMNS, data=ROWS, replace=True, **KINDS[kind])


@pytest.mark.crash
@pytest.mark.parametrize("open_lake", ["folder"], indirect=True)
@pytest.mark.parametrize("step", ["before the commit", "in the commit", "after the commit"])
@kinds
def test_a_process_that_dies_while_it_makes_a_table_leaves_the_old_one_or_the_new_one(
    lake: Lake, kind: str, step: str, tmp_path: Path
) -> None:
    lake.create_table("shop.t", [("id", "long")], data=[{"id": 1}])
    before, files = lake.version, set((tmp_path / "lake" / "tables").rglob("*.parquet"))
    process = fork(_die, str(tmp_path / "lake"), kind, step)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert [entry.name for entry in lake.tables("shop", include_dropped=True)][:1] == ["t"]
    if step == "after the commit":
        assert lake.version == before + 1
        assert content(lake.table("shop.t")) == ROWS
        return
    assert lake.version == before
    assert [entry.name for entry in lake.tables("shop", include_dropped=True)] == ["t"]
    assert lake.table("shop.t").scan().to_pylist() == [{"id": 1}]
    assert set((tmp_path / "lake" / "tables").rglob("*.parquet")) > files
    collect(lake.own_catalog(), orphan_grace=0)
    assert set((tmp_path / "lake" / "tables").rglob("*.parquet")) == files
