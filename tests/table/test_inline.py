"""Inline segments: small appends that the catalog keeps. Every reader sees them, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import build_server
from moulin.mirror import Mirror
from moulin.storage.store import open_store
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, EVENTS, SERVED, OpenLake

SMALL = {"inline_bytes": 1 << 16}
INLINE = {"moulin.inline-bytes": "65536"}
T = "2024-03-01T10:00:00Z"


@pytest.fixture
def folder(tmp_path: Path) -> Lake:
    lake = moulin.connect(tmp_path / "lake", **SMALL)
    lake.create_database("shop")
    return lake


def table_of(lake: Lake, **more: Any) -> Table:
    return lake.create_table("shop.events", EVENTS, event_time="ts", **more)


def rows(start: int, count: int = 3) -> list[dict[str, Any]]:
    return [{"id": n, "ts": T, "region": f"r{n % 3}", "amount": n / 2} for n in range(start, start + count)]


def ids(found: Any) -> list[int]:
    return sorted(found.to_arrow().column("id").to_pylist())


def files(lake: Lake) -> list[str]:
    return [info.path for info in lake.store.list() if info.path.endswith(".parquet")]


def inline_count(table: Table) -> int:
    state = table.state()
    found = table._context.catalog.segments(state.id, state.version, with_columns=False)
    assert state.inline == sum(segment.facts.inline is not None for segment in found)
    return state.inline


@pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
def test_a_small_append_writes_no_file_and_is_read_at_once(open_lake: OpenLake) -> None:
    lake = open_lake()
    lake.create_database("shop")
    table = table_of(lake, properties=INLINE)
    for start in (0, 3, 6):
        table.append(rows(start))
    assert files(lake) == []
    other = open_lake().table("shop.events")
    assert ids(other.scan()) == list(range(9))
    assert ids(other.scan(where="id >= 4 and region = 'r1'")) == [4, 7]
    assert other.scan().count() == 9
    assert other.take([0, 8], columns=["id"]).column("id").to_pylist() == [0, 8]
    assert inline_count(other) == 3


@pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
def test_inline_rows_are_deleted_updated_compacted_and_restored_like_others(open_lake: OpenLake) -> None:
    lake = open_lake()
    lake.create_database("shop")
    table = table_of(lake, properties=INLINE)
    table.append(rows(0))
    first = table.version
    table.append(rows(3))
    table.delete_where("id in (1, 4)")
    table.update(set={"amount": "99"}, where="id = 5")
    after = {row["id"]: row["amount"] for row in table.scan().to_arrow().to_pylist()}
    assert after == {0: 0.0, 2: 1.0, 3: 1.5, 5: 99.0}
    assert ids(table.at(version=first).scan()) == [0, 1, 2]
    before_ids = dict(zip(*table.scan(["id", "_row_id"]).to_arrow().to_pydict().values(), strict=True))
    table.compact(everything=True)
    assert inline_count(table) == 0
    assert dict(zip(*table.scan(["id", "_row_id"]).to_arrow().to_pydict().values(), strict=True)) == before_ids
    assert ids(table.at(version=first).scan()) == [0, 1, 2]
    table.restore(first)
    assert ids(table.scan()) == [0, 1, 2]
    assert inline_count(table) == 1


def test_the_feed_shows_inline_rows(folder: Lake) -> None:
    table = table_of(folder)
    start = table.version
    table.append(rows(0, 2))
    table.delete_where("id = 0")
    found = table.changes(start).to_arrow().to_pylist()
    assert [(row["_change_type"], row["id"]) for row in found] == [("insert", 0), ("insert", 1), ("delete", 0)]


def test_inline_segments_stay_few_without_a_compactor(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=8) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        for start in range(40):
            table.append(rows(start, 1))
            assert inline_count(table) <= 8
        assert ids(table.scan()) == list(range(40))
    for start in range(40, 60):  # by processes that each append once
        with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=8) as lake:
            table = lake.table("shop.events")
            table.append(rows(start, 1))
            assert inline_count(table) <= 8
            assert ids(table.scan()) == list(range(start + 1))


def test_rows_stay_when_inline_segments_cannot_be_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=2) as lake:
        lake.create_database("shop")
        table = table_of(lake)

        def refuse(*_: object) -> None:
            raise moulin.errors.Unavailable("The disk is full.")

        monkeypatch.setattr("moulin.table.compact.inline.compact_segments", refuse)
        for start in range(12):
            table.append(rows(start, 1))
        assert ids(table.scan()) == list(range(12))
        assert inline_count(table) == 8  # four times as many as there should be; then appends are files again
        assert "The disk is full." in caplog.text


def test_large_appends_and_keyed_tables_are_files(folder: Lake) -> None:
    table = table_of(folder)
    table.append(pa.table({"id": range(20_000), "ts": pa.nulls(20_000, pa.timestamp("us", "UTC"))}))
    keyed = folder.create_table("shop.stock", [("sku", "string", False), ("n", "int")], primary_key=["sku"])
    keyed.append([{"sku": "a", "n": 1}])
    assert len(files(folder)) == 2
    assert (inline_count(table), inline_count(keyed)) == (0, 0)


def test_a_property_turns_inline_appends_off_and_on(folder: Lake, tmp_path: Path) -> None:
    off = folder.create_table("shop.off", EVENTS, properties={"moulin.inline-bytes": "0"})
    off.append(rows(0))
    assert inline_count(off) == 0
    with moulin.connect(tmp_path / "other") as lake:
        lake.create_database("shop")
        on = lake.create_table("shop.on", EVENTS, properties={"moulin.inline-bytes": "65536"})
        on.append(rows(0))
        assert inline_count(on) == 1


def test_a_lost_catalog_is_recovered_with_inline_rows(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=1000, manifest_deltas=4) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        for start in range(20):
            table.append(rows(start, 1))
        table.delete_where("id = 3")
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    recover(open_store(tmp_path / "lake"), f"sqlite:///{tmp_path / 'lake' / 'catalog.sqlite'}", Config())
    with moulin.connect(tmp_path / "lake", **SMALL) as lake:
        table = lake.table("shop.events")
        assert ids(table.scan()) == [n for n in range(20) if n != 3]
        assert inline_count(table) == 19
        table.append(rows(20, 1))
        table.compact(everything=True)
        assert ids(table.scan()) == [n for n in range(21) if n != 3]


def test_replicas_and_mirrors_have_inline_rows(folder: Lake, tmp_path: Path) -> None:
    table = table_of(folder)
    mirror = Mirror(folder, str(tmp_path / "mirror"))
    mirror.run_once()
    replica = moulin.connect(tmp_path / "mirror", read_only=True)
    table.append(rows(0))
    table.delete_where("id = 1")
    mirror.run_once()
    replica.refresh()
    assert ids(replica.table("shop.events").scan()) == [0, 2]
    replica.close()


def test_clean_up_forgets_compacted_inline_rows_and_check_finds_nothing(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL, history_keep=0.0) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        for start in range(4):
            table.append(rows(start, 1))
        table.export_iceberg(tmp_path / "exported", copy=False)
        assert len(files(lake)) == 4
        table.compact(everything=True)
        collect(lake.own_catalog())
        assert check(lake.own_catalog()) == []
        assert ids(table.scan()) == [0, 1, 2, 3]
    with moulin.connect(tmp_path / "lake") as lake:
        assert ids(lake.table("shop.events").scan()) == [0, 1, 2, 3]


def test_a_commit_whose_inline_bytes_are_not_as_described_is_refused(folder: Lake) -> None:
    from dataclasses import replace

    from moulin.catalog.commit.table_commit import TableCommit
    from moulin.model.operations import Append
    from moulin.table.write.writes import prepare_append

    table = table_of(folder)
    change = prepare_append(table._context, table.state(), rows(0), inline=True)
    (facts,) = change.added
    assert facts.inline is not None
    for wrong in (
        replace(facts, inline=facts.inline[:-1]),
        replace(facts, inline=facts.inline[:-1] + b"x"),
        replace(facts, level=1),
        replace(facts, index_size=1),
    ):
        with pytest.raises(InvalidInput):
            folder.catalog.commit([TableCommit(table.id, change.read_version, Append(added=(wrong,)))])
    assert table.scan().count() == 0


STEP = st.sampled_from(["append", "delete", "compact", "restore"])
STEPS = st.lists(st.tuples(STEP, st.integers(0, 5)), max_size=14)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_inline_and_written_segments_hold_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    seen = []
    for options in ({}, {**SMALL, "inline_segments": 4}):
        with moulin.connect(tmp_path_factory.mktemp("lake"), **options) as lake:
            lake.create_database("shop")
            table = table_of(lake)
            versions, history = [table.version], []
            for number, (step, value) in enumerate(steps):
                match step:
                    case "append":
                        table.append(rows(10 * number, value + 1))
                    case "delete":
                        table.delete_where(f"amount <= {value * 20}")
                    case "compact":
                        table.compact(everything=True)
                    case "restore":
                        table.restore(versions[value % len(versions)])
                versions.append(table.version)
                history.append(sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]))
            seen.append((history, [ids(table.at(version=v).scan()) for v in versions]))
    assert seen[0] == seen[1]


def test_other_engines_read_inline_rows(folder: Lake, tmp_path: Path) -> None:
    import duckdb
    from pyiceberg.table import StaticTable

    table = table_of(folder)
    table.append(rows(0))
    table.append(rows(3))
    table.delete_where("id = 4")
    connection = folder.duckdb()
    assert connection.execute("select id from shop.events order by id").fetchall() == [(0,), (1,), (2,), (3,), (5,)]
    for copy in (True, False):
        exported = table.export_iceberg(tmp_path / f"exported-{copy}", copy=copy)
        found = StaticTable.from_metadata(exported.metadata_location).scan().to_arrow()
        assert sorted(found.column("id").to_pylist()) == [0, 1, 2, 3, 5]
    names = [str(tmp_path / "lake" / name) for name in files(folder)]
    plain = duckdb.connect().execute(f"select count(*) from read_parquet({names})")
    assert plain.fetchall() == [(6,)]


@pytest.mark.crash
def test_a_killed_process_loses_no_inline_append(tmp_path: Path) -> None:
    import os
    import signal
    import time

    lake = moulin.connect(tmp_path / "lake", **SMALL, inline_segments=4)
    lake.create_database("shop")
    table_of(lake)
    lake.close()
    for _ in range(4):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=4) as mine:
                table = mine.table("shop.events")
                start = table.scan().count()
                for number in range(start, start + 1000):
                    table.append(rows(number, 1))
                    os.write(write, b"x")
            os._exit(0)
        os.close(write)
        time.sleep(1.0)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged = len(os.read(read, 1 << 16))
        os.close(read)
        with moulin.connect(tmp_path / "lake") as seen:
            found = ids(seen.table("shop.events").scan())
            assert found == list(range(len(found)))
            assert acknowledged <= len(found)
            assert check(seen.own_catalog()) == []


@pytest.mark.crash
def test_the_manifests_of_a_killed_process_are_those_of_its_first_appends(tmp_path: Path) -> None:
    """Appends and their compactions are published in the background: a lost catalog takes the last ones with it."""
    import os
    import signal
    import time

    for number in range(4):
        folder = tmp_path / str(number)
        with moulin.connect(folder, **SMALL, inline_segments=4) as lake:
            lake.create_database("shop")
            table_of(lake)
        child = os.fork()
        if child == 0:
            with moulin.connect(folder, **SMALL, inline_segments=4) as mine:
                for start in range(1000):
                    mine.table("shop.events").append(rows(start, 1))
            os._exit(0)
        time.sleep(0.6 + 0.1 * number)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for file in folder.glob("catalog.sqlite*"):
            file.unlink()
        recover(open_store(folder), f"sqlite:///{folder / 'catalog.sqlite'}", Config())
        with moulin.connect(folder, **SMALL) as found:
            kept = ids(found.table("shop.events").scan())
            assert kept == list(range(len(kept)))
            assert kept
            assert check(found.own_catalog()) == []


def test_a_compaction_of_inline_segments_is_published_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=4) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        published = lake.own_catalog().published_version()
        with monkeypatch.context() as patched:
            patched.setattr("moulin.catalog.manifests.publish.Publisher.publish_soon", lambda self: None)
            for start in range(4):
                table.append(rows(start, 1))
            assert inline_count(table) == 0
            assert lake.own_catalog().published_version() == published
        table.delete_where("id = 1")
        assert lake.own_catalog().published_version() == lake.own_catalog().version()


def test_fresh_inline_segments_are_read_at_once_by_their_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a segment was read alone")

    with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=8) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        monkeypatch.setattr("moulin.table.compact.kernel._Reading.pieces", refuse)
        for start in range(8):
            table.append(rows(3 * start))
        assert inline_count(table) == 0
        assert ids(table.scan()) == list(range(24))


def _in_children(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in so many processes that begin at once; all must end well."""
    import os

    read, write = os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(write)
                os.read(read, 1)  # the end of the pipe starts everyone
                work(number)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(read)
    os.close(write)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count


def _row_ids(table: Table) -> dict[int, int]:
    found = table.scan(["id", "_row_id"]).to_arrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"])
    assert len(set(found["_row_id"])) == len(found["id"])
    return dict(zip(found["id"], found["_row_id"], strict=True))


@pytest.mark.crash
def test_processes_that_append_at_once_keep_inline_segments_few(tmp_path: Path) -> None:
    lake = moulin.connect(tmp_path / "lake", **SMALL, inline_segments=8)
    lake.create_database("shop")
    table_of(lake)
    lake.close()

    def work(number: int) -> None:
        with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=8) as mine:
            table = mine.table("shop.events")
            for row in range(40):
                table.append(rows(1000 * number + row, 1))
                assert table.state().inline <= 4 * 8 + 3

    _in_children(3, work)
    with moulin.connect(tmp_path / "lake") as seen:
        table = seen.table("shop.events")
        assert sorted(_row_ids(table)) == sorted(1000 * n + row for n in range(3) for row in range(40))
        assert inline_count(table) < 8 + 3
        assert check(seen.own_catalog()) == []


@pytest.mark.crash
def test_processes_that_compact_inline_segments_at_once_change_no_row(tmp_path: Path) -> None:
    lake = moulin.connect(tmp_path / "lake", **SMALL, inline_segments=1000)
    lake.create_database("shop")
    table = table_of(lake)
    for start in range(40):
        table.append(rows(start, 1))
    before = _row_ids(table)
    lake.close()

    def work(number: int) -> None:
        with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=8) as mine:
            mine.table("shop.events").append(rows(100 + number, 1))  # finds too many, and compacts them

    _in_children(3, work)
    with moulin.connect(tmp_path / "lake") as seen:
        table = seen.table("shop.events")
        after = _row_ids(table)
        assert {key: after[key] for key in before} == before
        assert sorted(set(after) - set(before)) == [100, 101, 102]
        assert inline_count(table) <= 8
        assert check(seen.own_catalog()) == []


def test_a_table_that_was_crowded_is_compacted_once_that_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL, inline_segments=4) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        with monkeypatch.context() as patched:

            def refuse(*_: object) -> None:
                raise moulin.errors.Unavailable("The disk is full.")

            patched.setattr("moulin.table.compact.inline.compact_segments", refuse)
            for start in range(20):
                table.append(rows(start, 1))
            assert inline_count(table) == 16
        for start in range(20, 24):
            table.append(rows(start, 1))
        assert inline_count(table) < 4
        assert ids(table.scan()) == list(range(24))


def test_inline_segments_of_several_schemas_are_compacted_together(tmp_path: Path) -> None:
    kept = []
    for together in (True, False):
        with moulin.connect(tmp_path / f"lake-{together}", **SMALL, inline_segments=1000) as lake:
            lake.create_database("shop")
            table = table_of(lake)
            for start in range(0, 30, 3):
                table.append([{**row, "amount": float("nan")} if row["id"] % 5 == 0 else row for row in rows(start)])
                if start == 12:
                    table.add_column("note", "string")
                if start == 21:
                    table.delete_where("id = 4")
            before = table.scan(["id", "region", "note", "_row_id"]).to_arrow().sort_by("id")
            with pytest.MonkeyPatch.context() as patched:
                if not together:
                    patched.setattr("moulin.table.compact.kernel.read_inline", lambda *_: None)
                table.compact(everything=True)
            assert inline_count(table) == 0
            after = table.scan(["id", "region", "note", "_row_id"]).to_arrow().sort_by("id")
            assert after.equals(before)
            kept.append(table.scan(["id", "ts", "note", "_row_id", "_last_updated_version"]).to_arrow())
    assert kept[0].equals(kept[1])


def test_a_client_that_does_not_know_inline_segments_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moulin.connect(tmp_path / "lake", **SMALL) as lake:
        lake.create_database("shop")
        table = table_of(lake)
        table.append(rows(0))
        server = build_server(lake, ServeConfig(bind="127.0.0.1:0")).start()
        monkeypatch.setattr("moulin.meta.client.connection.OWN", ("x-moulin-features", "7"))
        with moulin.connect(f"grpc://{server.address}") as old:
            with pytest.raises(moulin.errors.Unsupported, match="upgrade its moulin"):
                old.table("shop.events").scan().to_arrow()
            table.compact(everything=True)
            assert ids(old.table("shop.events").scan()) == [0, 1, 2]
        monkeypatch.undo()
        table.append(rows(3))
        with moulin.connect(f"grpc://{server.address}") as new:
            assert ids(new.table("shop.events").scan()) == list(range(6))
        server.stop(1)
