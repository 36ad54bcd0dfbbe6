"""Files of others as segments where they lie: no byte is copied or changed, and every reader sees their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import AlreadyExists, Corrupt, InvalidInput, MoulinError, NotFound
from moulin.lake import Lake
from moulin.storage.store import open_store
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake

EVERYWHERE = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)

COLUMNS = [("id", "long"), ("ts", "timestamptz"), ("name", "string"), ("amount", "double"), ("day", "date")]
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(first: int, count: int) -> pa.Table:
    """Foreign rows: narrower numbers, other Arrow types, columns in another order, NaN and nulls."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "name": pa.array([None if n % 5 == 0 else f"n{n}" for n in numbers], pa.large_string()),
            "id": pa.array(numbers, pa.int32()),
            "amount": pa.array([float("nan") if n % 7 == 0 else n / 2 for n in numbers], pa.float32()),
            "ts": pa.array([START + timedelta(minutes=n) for n in numbers], pa.timestamp("ms", "UTC")),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of somebody else, with values in the names of its folders."""
    root = tmp_path / "theirs"
    for number in range(4):
        place = root / f"day=2026-01-0{number % 2 + 1}" / f"part {number}%25=ü.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(number * 10, 10), place, row_group_size=4)
    (root / "_temporary").mkdir()
    (root / "_temporary" / "half.parquet").write_bytes(b"PAR1")
    (root / "notes.txt").write_text("not a table")
    return root


@pytest.fixture
def unchanged(folder: Path) -> Iterator[None]:
    """Whatever a test does, the files of others are as they were."""

    def seen() -> dict[Path, tuple[bytes, int]]:
        return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}

    before = seen()
    yield
    assert seen() == before


@pytest.fixture
def events(lake: Lake) -> Table:
    return lake.create_table("shop.events", COLUMNS, event_time="ts", partition_by=["day"])


def ids(table: Any, **options: Any) -> list[int]:
    found: list[int] = table.scan(columns=["id"], **options).to_arrow()["id"].to_pylist()
    return sorted(found)


@EVERYWHERE
@pytest.mark.usefixtures("unchanged")
def test_rows_of_adopted_files_are_rows_of_the_table(lake: Lake, events: Table, folder: Path) -> None:
    done = events.adopt(folder)
    assert (done.files, done.rows, done.known, done.empty) == (4, 40, 0, 0)
    assert ids(events) == [*range(40)]
    first = events.scan(where="id = 11").to_pylist()
    assert first == [
        {"id": 11, "ts": START + timedelta(minutes=11), "name": "n11", "amount": 5.5, "day": date(2026, 1, 2)}
    ]
    assert ids(events, where="day = date '2026-01-01' and id > 5") == [6, 7, 8, 9, *range(20, 30)]
    assert ids(events, where="ts >= '2026-01-01T00:30:00Z' and name is null") == [30, 35]
    assert ids(events, where="amount > 18") == [0, 7, 14, 21, 28, 35, 37, 38, 39]  # NaN is above all numbers
    assert [base.uri for base in lake.bases()] == [open_store(folder).uri]
    found = events.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
    assert sorted(row["_row_id"] for row in found) == [*range(40)]


@EVERYWHERE
@pytest.mark.usefixtures("unchanged")
def test_adopted_segments_are_changed_as_others_are(
    lake: Lake, events: Table, folder: Path, open_lake: OpenLake
) -> None:
    events.adopt(folder)
    events.create_index("id")
    before = {r["id"]: r["_row_id"] for r in events.scan(columns=["id", "_row_id"]).to_pylist()}
    events.delete_where("id < 3")
    events.update({"name": "'new'"}, where="id = 15")
    events.append([{"id": 100, "day": date(2026, 1, 1)}])
    expected = [*range(3, 40), 100]
    assert ids(events) == expected
    assert ids(events, where="id = 15") == [15]
    assert [r["name"] for r in events.scan(where="id = 15").to_pylist()] == ["new"]
    after = {r["id"]: r["_row_id"] for r in events.scan(columns=["id", "_row_id"]).to_pylist()}
    assert {n: after[n] for n in range(3, 40)} == {n: before[n] for n in range(3, 40)}
    events.compact(everything=True)
    assert ids(events) == expected
    assert {r["id"]: r["_row_id"] for r in events.scan(columns=["id", "_row_id"]).to_pylist()} == after
    assert ids(open_lake().table("shop.events")) == expected


@FOLDER
def test_the_feed_shows_rows_of_adopted_files(events: Table, folder: Path) -> None:
    since = events.state().version
    events.adopt(folder / "day=2026-01-01")
    events.delete_where("id = 4")
    kinds = [(row["_change_type"], row["id"]) for row in events.changes(since=since).to_pylist()]
    assert sorted(kinds) == sorted([*(("insert", n) for n in [*range(10), *range(20, 30)]), ("delete", 4)])


@EVERYWHERE
@pytest.mark.usefixtures("unchanged")
def test_a_file_is_adopted_once(lake: Lake, events: Table, folder: Path) -> None:
    one = folder / "day=2026-01-01" / "part 0%25=ü.parquet"
    assert events.adopt(one).rows == 10
    with pytest.raises(AlreadyExists, match="part 0%25=ü.parquet is a file of shop.events already"):
        events.adopt(f"{folder}/**/*.parquet")
    done = events.adopt(f"{folder}/*/part*.parquet", skip_known=True)
    assert (done.files, done.known) == (3, 1)
    events.compact(everything=True)
    if not lake.uri.startswith("grpc"):
        for _ in range(2):  # the table remembers files that no version has
            collect(lake.own_catalog(), orphan_grace=0, history_keep=0, byte_floor=0)
    version = events.state().head_version
    assert events.adopt(folder, skip_known=True).version == version
    assert ids(events) == [*range(40)]
    events.delete_where("id < 10")
    assert events.adopt(one, again=True).rows == 10
    with pytest.raises(AlreadyExists):
        events.adopt(one, again=True)
    assert ids(events) == [*range(40)]


@FOLDER
def test_a_request_is_done_once(events: Table, folder: Path) -> None:
    first = events.adopt([folder / "day=2026-01-02"], request_id="load-1")
    assert events.adopt([folder / "day=2026-01-02"], request_id="load-1").version == first.version
    assert len(ids(events)) == 20


@FOLDER
def test_lists_and_patterns_name_files(lake: Lake, folder: Path) -> None:
    files = sorted(folder.rglob("part*"))
    for source, expected in (
        (files[:2], 20),
        ([str(files[0]), folder / "day=2026-01-02"], 30),
        (f"{folder}/day=2026-01-0[2-9]/*", 20),
        (f"{folder}/**/part ?%25=*", 40),
        (str(files[3]), 10),
        (f"{folder}/", 40),
    ):
        table = lake.create_table("shop.listed", COLUMNS, replace=True)
        assert table.adopt(source).rows == expected
    for nothing in (f"{folder}/*.parquet", f"{folder}/*/*.txt", folder / "nowhere"):
        with pytest.raises(NotFound):
            table.adopt(nothing)
    with pytest.raises(InvalidInput):
        table.adopt([])


@FOLDER
def test_columns_must_fit(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.fit", [("id", "long", False), ("name", "string"), ("n", "int")])
    place = tmp_path / "fit"
    place.mkdir()
    for index, (columns, reason) in enumerate(
        (
            ({"id": [1], "name": ["a"], "more": [1]}, "has the column 'more', which the table lacks"),
            ({"name": ["a"]}, "'id' of .* is required, but missing in the file"),
            ({"id": pa.array([1, None], pa.int64())}, "'id' is required, but has 1 nulls in "),
            ({"id": [1], "name": [2]}, "Column 'name' is string in the table and int64 in"),
            ({"id": [1], "n": pa.array([2], pa.int64())}, "Column 'n' is int in the table and int64 in"),
            ({"id": pa.array([1], pa.uint32())}, "which does not fit"),
            ({"id": [1], "name": [["a"]]}, "which does not fit"),
        )
    ):
        file = place / f"{index}.parquet"
        pq.write_table(pa.table(columns), file)
        with pytest.raises(InvalidInput, match=reason) as refused:
            table.adopt(file)
        assert file.name in str(refused.value)
    assert table.adopt(place / "0.parquet", extra="ignore").rows == 1
    assert table.scan().to_pylist() == [{"id": 1, "name": "a", "n": None}]
    with pytest.raises(InvalidInput, match="not 'luck'"):
        table.adopt(place, by="luck")


@FOLDER
def test_field_ids_of_files_count_and_renamed_columns_are_found(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.renamed", [("a", "long"), ("b", "string")])
    numbers = {field.name: str(field.field_id).encode() for field in table.state().schema.fields}

    def write(name: str, fields: dict[str, tuple[Any, bytes]]) -> Path:
        columns = [pa.field(n, v.type, metadata={b"PARQUET:field_id": i}) for n, (v, i) in fields.items()]
        file = tmp_path / "ids" / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_arrays([v for v, _ in fields.values()], schema=pa.schema(columns)), file)
        return file

    same = write("same", {"b": (pa.array(["x"]), numbers["b"]), "a": (pa.array([1]), numbers["a"])})
    table.adopt(same)
    table.rename_column("a", "c")
    table.adopt(write("old", {"a": (pa.array([2]), numbers["a"])}))
    swapped = write("swapped", {"c": (pa.array([3]), numbers["b"]), "b": (pa.array(["y"]), numbers["a"])})
    with pytest.raises(InvalidInput, match="choose ids or names"):
        table.adopt(swapped)
    table.adopt(swapped, by="name")
    assert sorted(table.scan().to_pylist(), key=lambda row: row["c"]) == [
        {"c": 1, "b": "x"},
        {"c": 2, "b": None},
        {"c": 3, "b": "y"},
    ]


@FOLDER
def test_columns_that_come_later_are_read_with_their_defaults(events: Table, folder: Path) -> None:
    events.adopt(folder)
    events.add_column("state", "string", default="open")
    events.rename_column("name", "title")
    assert {row["state"] for row in events.scan().to_pylist()} == {"open"}
    assert events.scan(columns=["title"], where="id = 12").to_pylist() == [{"title": "n12"}]
    events.drop_column("title")
    assert "title" not in events.scan().to_arrow().column_names


@FOLDER
def test_a_file_of_several_partitions_is_refused(lake: Lake, folder: Path) -> None:
    table = lake.create_table("shop.hours", COLUMNS, partition_by=["hour(ts)", "bucket(4, id)"])
    with pytest.raises(InvalidInput, match="holds rows of . partitions of the table"):
        table.adopt(folder)
    hourly = lake.create_table("shop.hourly", COLUMNS, partition_by=["hour(ts)", "truncate(2, day)"][:1])
    assert hourly.adopt(folder).rows == 40
    assert ids(hourly, where="ts < '2026-01-01T00:05:00Z'") == [0, 1, 2, 3, 4]
    with pytest.raises(InvalidInput, match="'2026-01-01' in the path, which is not a value of type int"):
        lake.create_table("shop.typed", [*COLUMNS[:4], ("day", "int")]).adopt(folder)


@FOLDER
def test_files_that_are_no_tables_are_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.hostile", COLUMNS)
    place = tmp_path / "hostile"
    place.mkdir()
    good = place / "good.parquet"
    pq.write_table(rows(0, 10), good)
    data = good.read_bytes()
    spoilt = {
        "empty": b"",
        "magic": data[:-1] + b"X",
        "cut": data[: len(data) // 2],
        "tail": data[:-8] + (2**31).to_bytes(4, "little") + b"PAR1",
        "garbage": data[:4] + bytes(len(data) - 12) + data[-8:],
        "schema": data.replace(b"amount", b"amoun\xff"),
    }
    for name, content in spoilt.items():
        (place / f"{name}.parquet").write_bytes(content)
        with pytest.raises(MoulinError, match=rf"{name}\.parquet"):
            table.adopt(place / f"{name}.parquet")
    pq.write_table(rows(0, 0), place / "none.parquet")
    assert table.adopt([good, place / "none.parquet"]).empty == 1
    (tmp_path / "secret").mkdir()
    pq.write_table(rows(50, 5), tmp_path / "secret" / "s.parquet")
    os.symlink(tmp_path / "secret" / "s.parquet", place / "link.parquet")
    with pytest.raises(InvalidInput, match=r"link.parquet is a symbolic link out of base path"):
        table.adopt([place / "link.parquet"])
    assert len(ids(table)) == 10


@FOLDER
def test_a_file_that_changed_or_is_gone_is_corrupt(lake: Lake, folder: Path) -> None:
    table = lake.create_table("shop.changing", COLUMNS)
    table.adopt(folder)
    changed, gone = sorted(folder.rglob("part*"))[:2]
    before, taken = changed.read_bytes(), gone.read_bytes()
    pq.write_table(rows(70, 10), changed, row_group_size=4)
    again = changed.read_bytes()
    with pytest.raises(Corrupt, match=changed.name.replace("+", r"\+")):
        table.scan().to_arrow()
    if len(again) == len(before):
        with pytest.raises(Corrupt, match="changed after it was adopted"):
            table.scan().to_arrow()
    changed.write_bytes(before)
    assert table.scan().count() == 40
    gone.unlink()
    with pytest.raises(Corrupt, match=gone.name):
        table.scan().to_arrow()
    if not lake.uri.startswith("grpc"):
        assert [finding.where.endswith(gone.name) for finding in check(lake.own_catalog())] == [True]
    gone.write_bytes(taken)
    assert ids(table) == [*range(40)]


@EVERYWHERE
@pytest.mark.usefixtures("unchanged")
def test_clean_up_leaves_files_of_others_alone(open_lake: OpenLake, lake: Lake, events: Table, folder: Path) -> None:
    if lake.uri.startswith("grpc"):
        return  # clean-up runs where the catalog is
    catalog = lake.own_catalog()
    events.adopt(folder)
    events.delete_where("day = date '2026-01-01'")
    events.compact(everything=True)
    for _ in range(2):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    assert ids(events) == [*range(10, 20), *range(30, 40)]
    assert check(catalog) == []
    lake.drop_table("shop.events", immediate=True)
    for _ in range(3):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    name = lake.bases()[0].name
    assert lake.drop_base(name).name == name
    table = lake.create_table("shop.events", COLUMNS, event_time="ts")
    assert table.adopt(folder).files == 4


@FOLDER
@pytest.mark.usefixtures("unchanged")
def test_compaction_takes_small_and_worn_files_and_leaves_large_ones(lake: Lake, folder: Path) -> None:
    table = lake.create_table("shop.large", COLUMNS, properties={"moulin.merge-segment-bytes": "1024"})
    table.adopt(folder)
    assert table.compact().segments_in == 0
    table.delete_where("id in (0, 1, 2, 3)")
    assert table.compact().segments_in == 1
    assert ids(table) == [*range(4, 40)]


@EVERYWHERE
@pytest.mark.usefixtures("unchanged")
def test_files_adopted_on_a_branch_are_published_once(lake: Lake, events: Table, folder: Path) -> None:
    events.adopt(folder / "day=2026-01-01")
    branch = lake.branch("load")
    theirs = branch.table("shop.events")
    assert theirs.adopt(folder, skip_known=True).known == 2
    theirs.delete_where("id = 35")
    assert ids(events) == [*range(10), *range(20, 30)]
    lake.publish("load")
    assert ids(events) == [n for n in range(40) if n != 35]
    assert events.adopt(folder, skip_known=True).files == 0
    clone = lake.clone_table("shop.events", "shop.clone")
    assert clone.adopt(folder, skip_known=True).files == 0
    assert ids(clone) == ids(events)


@FOLDER
def test_files_adopted_on_both_sides_do_not_come_twice(lake: Lake, events: Table, folder: Path) -> None:
    branch = lake.branch("load")
    branch.table("shop.events").adopt(folder)
    events.adopt(folder / "day=2026-01-01")
    with pytest.raises(AlreadyExists, match="is a file of shop.events already"):
        lake.publish("load")
    assert ids(events) == [*range(10), *range(20, 30)]


@FOLDER
@pytest.mark.usefixtures("unchanged")
def test_columns_are_filled_beside_adopted_files(lake: Lake, events: Table, folder: Path) -> None:
    events.adopt(folder)
    events.add_column("twice", "double", from_sql="amount * 2")
    events.delete_where("id = 12")
    found = {row["id"]: row["twice"] for row in events.scan(where="day = date '2026-01-02'").to_pylist()}
    assert (found[11], found[13], len(found)) == (11.0, 13.0, 19)
    assert check(lake.own_catalog()) == []
    events.compact(everything=True)
    assert {row["id"]: row["twice"] for row in events.scan().to_pylist()}[13] == 13.0


@FOLDER
@pytest.mark.usefixtures("unchanged")
def test_an_erase_does_not_touch_files_of_others(lake: Lake, events: Table, folder: Path) -> None:
    events.adopt(folder)
    events.append([{"id": 100, "day": date(2026, 1, 3)}])
    done = events.erase("id = 5")
    assert any("part 0" in one for one in done.report["unreachable"])
    assert ids(events) == [n for n in (*range(40), 100) if n != 5]
    events.erase("id = 100")
    events.compact(everything=True)
    for _ in range(2):
        collect(lake.own_catalog(), orphan_grace=0, history_keep=0, byte_floor=0)
    assert events.erase("id = 5").rows == 0
    assert ids(events) == [n for n in range(40) if n != 5]
