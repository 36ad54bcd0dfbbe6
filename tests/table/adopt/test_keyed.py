"""Files of others in tables with a primary key: one live row per key, whatever order their rows are in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import InvalidInput
from moulin.formats.key_index import KeyIndex
from moulin.lake import Lake
from moulin.storage.segment_source import key_index_of
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake

EVERYWHERE = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)

COLUMNS = [("id", "long", False), ("name", "string")]
Rows = dict[int, str]


def write(file: Path, rows: Rows, *, shuffled: bool = True, **options: Any) -> Path:
    """A file of somebody else, its rows in no order."""
    keys = list(rows)
    if shuffled:
        random.Random(len(rows)).shuffle(keys)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"name": [rows[key] for key in keys], "id": pa.array(keys, pa.int64())}), file, **options)
    return file


def named(first: int, count: int, name: str) -> Rows:
    return {number: f"{name}{number}" for number in range(first, first + count)}


def require(lake: Lake, table: Table, expected: Rows) -> None:
    """Every way to read the table gives these rows."""
    plain = table.scan().to_arrow()
    assert plain.num_rows == len(expected)
    assert dict(zip(plain["id"].to_pylist(), plain["name"].to_pylist(), strict=True)) == expected
    ordered = table.scan(ordered=True).to_arrow()
    assert ordered["id"].to_pylist() == sorted(expected)
    backwards = table.scan(reverse=True, limit=7).to_arrow()["id"].to_pylist()
    assert backwards == sorted(expected, reverse=True)[:7]
    low = sorted(expected)[len(expected) // 3]
    part = table.scan(start=low, end=low + 20).to_arrow()["id"].to_pylist()
    assert part == [key for key in sorted(expected) if low <= key < low + 20]
    asked = [*expected, -1, 10**9]
    got = [row and row["name"] for row in table.get_many(asked)]
    assert got == [expected.get(key) for key in asked]
    assert (table.get(low) or {}).get("name") == expected[low]
    assert lake.table(table.name).count() == len(expected)


@pytest.fixture
def people(lake: Lake) -> Table:
    return lake.create_table("shop.people", COLUMNS, primary_key=["id"])


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody else. Whatever a test does, the files that are in it at the end of its first step stay."""
    root = tmp_path / "theirs"
    root.mkdir()
    yield root
    assert not [path for path in root.rglob("*") if path.is_file() and path.suffix != ".parquet"], "nothing beside them"


@EVERYWHERE
def test_adopted_rows_replace_those_of_their_keys(lake: Lake, people: Table, theirs: Path, open_lake: OpenLake) -> None:
    people.append([{"id": n, "name": "old"} for n in range(50)])
    people.put({"id": 50, "name": "put"})
    write(theirs / "a.parquet", named(40, 60, "a"), row_group_size=16)
    write(theirs / "b.parquet", named(200, 30, "b"), shuffled=False)
    done = people.adopt(theirs)
    assert (done.files, done.rows) == (2, 90)
    expected = dict.fromkeys(range(40), "old") | named(40, 60, "a") | named(200, 30, "b")
    require(lake, people, expected)
    people.put({"id": 41, "name": "put again"})
    people.delete(210)
    assert people.get(210) is None
    expected |= {41: "put again"}
    del expected[210]
    require(lake, people, expected)
    people.append([{"id": n, "name": "new"} for n in (45, 46, 300)])
    people.delete_where("id between 60 and 69")
    people.update({"name": "'changed'"}, where="id = 205")
    expected |= {45: "new", 46: "new", 300: "new", 205: "changed"}
    expected = {key: name for key, name in expected.items() if not 60 <= key <= 69}
    require(lake, people, expected)
    require(lake, open_lake().table("shop.people"), expected)
    people.compact(everything=True)
    require(lake, people, expected)
    assert not any(segment.facts.adopted for segment in people.scan().plan().segments)


@FOLDER
def test_duckdb_reads_the_same_from_the_files_themselves(
    lake: Lake, people: Table, theirs: Path, tmp_path: Path
) -> None:
    old = write(tmp_path / "old.parquet", named(0, 5000, "old"))
    people.append(pq.read_table(old))
    for number in range(4):
        write(theirs / f"{number}.parquet", named(4000 + 1000 * number, 1000, f"part {number} "), row_group_size=100)
    people.adopt(theirs)
    people.delete_where("name like '%3'")
    with duckdb.connect() as plain:
        wanted = plain.sql(
            f"""select id, name from read_parquet('{theirs}/*.parquet') where name not like '%3'
            union all select id, name from read_parquet('{old}') where id < 4000 and name not like '%3' order by id"""
        ).fetchall()
    found = people.scan(ordered=True, columns=["id", "name"]).to_arrow()
    assert list(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == wanted
    with moulin.connect(lake.uri) as again, again.duckdb() as connection:
        assert connection.sql("select id, name from shop.people order by id").fetchall() == wanted


@FOLDER
def test_a_key_that_comes_twice_is_refused_by_its_file(people: Table, theirs: Path) -> None:
    twice = theirs / "twice.parquet"
    pq.write_table(pa.table({"id": [3, 7, 5, 7], "name": ["a", "b", "c", "d"]}), twice)
    with pytest.raises(InvalidInput, match=r"The key 7 appears more than once in .*twice.parquet"):
        people.adopt(twice)
    one = write(theirs / "one.parquet", named(0, 10, "a"))
    other = write(theirs / "other.parquet", named(9, 10, "b"))
    with pytest.raises(InvalidInput, match=r"The key 9 of .*one.parquet is also in another of these files"):
        people.adopt([one, other])
    nothing = theirs / "nothing.parquet"
    pq.write_table(pa.table({"id": pa.array([1, None], pa.int64())}), nothing)
    with pytest.raises(InvalidInput, match=r"has 1 nulls in .*nothing.parquet"):
        people.adopt(nothing)
    assert people.scan().count() == 0
    people.adopt(one)
    people.adopt(other)
    assert {row["id"]: row["name"] for row in people.scan().to_pylist()} == named(0, 9, "a") | named(9, 10, "b")


@FOLDER
def test_files_in_key_order_have_plain_indexes(lake: Lake, people: Table, theirs: Path) -> None:
    write(theirs / "sorted.parquet", named(0, 10, "a"), shuffled=False)
    write(theirs / "mixed.parquet", named(20, 10, "b"))
    people.adopt(theirs)
    for segment in people.scan().plan().segments:
        facts = segment.facts
        path = key_index_of(facts)
        assert path.startswith("tables/"), "the folder of somebody else is left alone"
        data = lake.store.get(path)
        block = KeyIndex(lambda start, length, data=data: data[start : start + length], len(data), path).load(0)
        assert (block.positions is None) == facts.is_in_order == ("sorted" in facts.path)


@FOLDER
def test_a_file_of_several_regions_is_refused(lake: Lake, theirs: Path) -> None:
    columns = [("area", "string", False), ("id", "long", False)]
    table = lake.create_table("shop.split", columns, primary_key=["area", "id"], properties={"moulin.regions": "area"})
    for area in ("eu", "us"):
        pq.write_table(pa.table({"area": [area] * 3, "id": [3, 1, 2]}), theirs / f"{area}.parquet")
    assert table.adopt(theirs).rows == 6
    pq.write_table(pa.table({"area": ["eu", "us"], "id": [4, 4]}), theirs / "both.parquet")
    with pytest.raises(InvalidInput, match=r"both.parquet holds keys of 2 regions of shop.split"):
        table.adopt(theirs / "both.parquet")
    with table:
        table.put({"area": "eu", "id": 2})
        assert table.get(("us", 1)) == {"area": "us", "id": 1}
    assert table.scan().count() == 6


@FOLDER
def test_keys_from_paths_and_composite_keys(lake: Lake, theirs: Path) -> None:
    columns = [("day", "date", False), ("code", "string", False), ("n", "int")]
    table = lake.create_table("shop.days", columns, primary_key=["code", "day"])
    for day in (1, 2):
        place = theirs / f"day=2026-01-0{day}" / "x.parquet"
        place.parent.mkdir()
        pq.write_table(pa.table({"code": ["b", "a\0", "a"], "n": pa.array([day, 2, 3], pa.int32())}), place)
    assert table.adopt(theirs).rows == 6
    found = [(row["code"], row["day"].day) for row in table.scan(ordered=True).to_pylist()]
    assert found == [("a", 1), ("a", 2), ("a\0", 1), ("a\0", 2), ("b", 1), ("b", 2)]
    assert table.scan(prefix=("b",)).to_arrow()["n"].to_pylist() == [1, 2]


@FOLDER
def test_the_feed_of_a_replaced_row_is_a_delete_and_an_insert(people: Table, theirs: Path) -> None:
    people.append([{"id": 1, "name": "old"}, {"id": 2, "name": "old"}])
    since = people.state().version
    people.adopt(write(theirs / "a.parquet", {1: "new", 3: "new"}))
    kinds = [(row["_change_type"], row["id"], row["name"]) for row in people.changes(since=since).to_pylist()]
    assert sorted(kinds) == [("delete", 1, "old"), ("insert", 1, "new"), ("insert", 3, "new")]


@FOLDER
def test_versions_branches_and_clean_up_know_adopted_keys(
    lake: Lake, people: Table, theirs: Path, open_lake: OpenLake
) -> None:
    people.append([{"id": n, "name": "old"} for n in range(20)])
    before = people.state().version
    branch = lake.branch("exp")
    mine = branch.table("shop.people")
    mine.adopt(write(theirs / "a.parquet", named(10, 20, "a")))
    expected = dict.fromkeys(range(10), "old") | named(10, 20, "a")
    require(branch, mine, expected)
    require(lake, people, dict.fromkeys(range(20), "old"))
    lake.publish("exp")
    catalog = lake.own_catalog()
    for _ in range(2):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    require(lake, people, expected)
    assert people.scan(version=people.state().version).count() == 30
    clone = lake.clone_table("shop.people", "shop.twin")
    clone.append([{"id": 12, "name": "twin"}])
    require(lake, clone, expected | {12: "twin"})
    assert check(catalog) == []
    people.erase("id = 15")
    del expected[15]
    require(lake, people, expected)
    people.put({"id": 15, "name": "back"})
    people.put({"id": 16, "name": "again"})
    people.flush()
    require(lake, people, expected | {15: "back", 16: "again"})
    assert before < people.state().version
    lake.drop_table("shop.twin", immediate=True)
    for _ in range(2):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    assert check(catalog) == []
    require(open_lake(), open_lake().table("shop.people"), expected | {15: "back", 16: "again"})


@FOLDER
def test_a_cast_keeps_keys_of_files_in_any_order(lake: Lake, theirs: Path) -> None:
    table = lake.create_table("shop.cast", [("id", "int", False), ("n", "long")], primary_key=["id"])
    pq.write_table(pa.table({"id": pa.array([5, 1, 3], pa.int32()), "n": [50, 10, 30]}), theirs / "a.parquet")
    table.adopt(theirs)
    table.cast_column("n", "string")
    assert table.get(3) == {"id": 3, "n": "30"}
    table.append([{"id": 1, "n": "new"}])
    assert table.scan(ordered=True).to_pylist() == [{"id": 1, "n": "new"}, {"id": 3, "n": "30"}, {"id": 5, "n": "50"}]


@FOLDER
def test_adopted_files_do_not_hold_up_writers(lake: Lake, theirs: Path) -> None:
    lake.create_table("shop.busy", COLUMNS, primary_key=["id"])
    for number in range(10):
        write(theirs / f"{number}.parquet", named(10 * number, 10, "a"))
    impatient: Any = {"level0_slowdown": 3, "level0_stop": 4, "merge_background": "off", "stall_seconds": 0.1}
    with moulin.connect(lake.uri, **impatient) as hurried:
        table = hurried.table("shop.busy")
        table.adopt(theirs)
        table.put({"id": 1, "name": "put"})
        table.flush()
        assert (table.stats().levels[0].files, table.count()) == (11, 100)
        table.compact()
        assert not any(segment.facts.adopted for segment in table.scan().plan().segments), "small ones are rewritten"
        assert table.count() == 100
        assert table.get(1) == {"id": 1, "name": "put"}


@FOLDER
def test_large_files_stay_where_they_lie_until_all_is_compacted(lake: Lake, theirs: Path) -> None:
    properties = {"moulin.merge-segment-bytes": 1000}
    table = lake.create_table("shop.large", COLUMNS, primary_key=["id"], properties=properties)
    write(theirs / "a.parquet", named(0, 1000, "a"))
    table.adopt(theirs)
    for number in range(3):
        table.append([{"id": number, "name": "new"}])
    table.compact()
    assert [bool(segment.facts.adopted) for segment in table.scan().plan().segments].count(True) == 1
    require(lake, table, named(3, 997, "a") | dict.fromkeys(range(3), "new"))
    table.delete_where("id < 500")
    table.compact()
    assert not any(segment.facts.adopted for segment in table.scan().plan().segments), "a worn one is rewritten"
    require(lake, table, named(500, 500, "a"))


@FOLDER
def test_a_folder_is_imported_with_a_key(lake: Lake, theirs: Path) -> None:
    write(theirs / "a.parquet", named(0, 20, "a"))
    write(theirs / "b.parquet", named(20, 20, "b"))
    table = lake.import_table(theirs, "shop.imported", primary_key=["id"])
    require(lake, table, named(0, 20, "a") | named(20, 20, "b"))
    table.append([{"id": 3, "name": "new"}])
    require(lake, table, named(0, 20, "a") | named(20, 20, "b") | {3: "new"})
    write(theirs / "c.parquet", {39: "c"})
    with pytest.raises(InvalidInput, match="The key 39"):
        lake.import_table(theirs, "shop.twice", primary_key=["id"])
    with pytest.raises(InvalidInput, match="key column 'ident' is not in the schema"):
        lake.import_table(theirs, "shop.wrong", primary_key=["ident"])


@FOLDER
def test_rows_that_a_source_has_deleted_are_no_duplicates(lake: Lake, tmp_path: Path) -> None:
    import deltalake

    place = str(tmp_path / "delta")
    deltalake.write_deltalake(place, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    deltalake.write_deltalake(place, pa.table({"id": [2], "name": ["new"]}), mode="append")
    with pytest.raises(InvalidInput, match="The key 2"):
        lake.import_table(place, "shop.delta", primary_key=["id"])
    deltalake.DeltaTable(place).delete("name = 'b'")
    table = lake.import_table(place, "shop.delta", primary_key=["id"])
    require(lake, table, {1: "a", 2: "new", 3: "c"})


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["adopt", "append", "put", "delete", "compact", "erase"]),
        st.sets(st.integers(0, 60), min_size=1, max_size=25),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_histories_with_adoptions_are_those_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, set[int]]], order: random.Random
) -> None:
    root = tmp_path_factory.mktemp("history")
    expected: Rows = {}
    versions: list[tuple[int, Rows]] = []
    with Lake.open(root / "lake") as lake:
        lake.create_database("shop")
        with lake.create_table("shop.t", COLUMNS, primary_key=["id"]) as table:
            for number, (step, keys) in enumerate(steps):
                rows = dict.fromkeys(keys, f"{step} {number}")
                listed = list(keys)
                order.shuffle(listed)
                if step == "adopt":
                    half = len(listed) // 2
                    files = []
                    for part, some in enumerate((listed[:half], listed[half:])):
                        file = root / "theirs" / f"{number}-{part}.parquet"
                        file.parent.mkdir(exist_ok=True)
                        pq.write_table(pa.table({"id": some, "name": [rows[k] for k in some]}), file, row_group_size=3)
                        files += [file] if some else []
                    table.adopt(files)
                    expected |= rows
                elif step == "append":
                    table.append([{"id": key, "name": rows[key]} for key in listed])
                    expected |= rows
                elif step == "put":
                    for key in listed:
                        table.put({"id": key, "name": rows[key]})
                    expected |= rows
                elif step == "delete":
                    table.delete_batch(listed)
                    expected = {key: name for key, name in expected.items() if key not in keys}
                elif step == "compact":
                    table.compact(everything=len(keys) % 2 == 0)
                elif step == "erase" and expected:
                    one = min(expected)
                    table.erase(f"id = {one}")
                    versions = [(at, {k: n for k, n in then.items() if k != one}) for at, then in versions]
                    del expected[one]
                assert {r["id"]: r["name"] for r in table.scan().to_pylist()} == expected
                assert table.scan(ordered=True).to_arrow()["id"].to_pylist() == sorted(expected)
                got = [row and row["name"] for row in table.get_many(range(62))]
                assert got == [expected.get(key) for key in range(62)]
                versions.append((table.flush() or table.state().version, dict(expected)))
        table = lake.table("shop.t")
        for version, then in versions:
            assert {r["id"]: r["name"] for r in table.scan(version=version).to_pylist()} == then
        assert check(lake.catalog) == []
