"""The keys of a table are divided otherwise while it has rows: one live row per key, in every reader and version."""

from __future__ import annotations

import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.errors import Conflict, FailedPrecondition, Fenced, InvalidInput
from moulin.lake import Lake, locate
from moulin.model.region_spec import HISTORY, RegionSpec, specs_of
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.left_logs import regions_in_logs
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake

EVERYWHERE = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)

COLUMNS = [("id", "long", False), ("area", "string", False), ("name", "string")]
KEY = ["id", "area"]
DIVISIONS: list[list[str]] = [
    ["bucket(4, id)"],
    ["area"],
    [],
    ["bucket(3, id)", "area"],
    ["id < 6", "area in ('x', 'q,r')"],
    ["truncate(10, id)", "id * 2 - 7 > 13 and area <> 'y'"],
]
Rows = dict[tuple[int, str], str]


def row(key: tuple[int, str], name: str) -> dict[str, Any]:
    return {"id": key[0], "area": key[1], "name": name}


def by_key(found: list[dict[str, Any]]) -> Rows:
    rows = {(one["id"], one["area"]): one["name"] for one in found}
    assert len(rows) == len(found), "one live row per key"
    return rows


def require(table: Table, expected: Rows) -> None:
    assert by_key(table.scan().to_pylist()) == expected
    assert [(r["id"], r["area"]) for r in table.scan(ordered=True).to_pylist()] == sorted(expected)
    asked = [*expected, (-1, "x")]
    assert [found and found["name"] for found in table.get_many(asked)] == [expected.get(key) for key in asked]


@pytest.fixture
def people(lake: Lake) -> Table:
    return lake.create_table("shop.people", COLUMNS, primary_key=KEY)


@EVERYWHERE
def test_a_table_with_rows_is_divided_otherwise(lake: Lake, people: Table, open_lake: OpenLake) -> None:
    source, expected, versions = random.Random(1), Rows(), list[tuple[int, Rows]]()
    for turn, fields in enumerate([None, *DIVISIONS[: 3 if lake.uri.startswith("postgres") else 6]]):
        if fields is not None:
            people.set_regions(fields)
        for _ in range(60):
            key = source.randrange(40), source.choice("xyz")
            if source.random() < 0.2:
                people.delete(key)
                expected.pop(key, None)
            else:
                people.put(row(key, f"put {turn}"))
                expected[key] = f"put {turn}"
        some = [(number, "x") for number in range(5)]
        people.append([row(key, f"appended {turn}") for key in some])
        expected |= dict.fromkeys(some, f"appended {turn}")
        people.update({"name": "'updated'"}, where="id between 6 and 9")
        expected = {key: "updated" if 6 <= key[0] <= 9 else name for key, name in expected.items()}
        people.delete_where("id = 20")
        expected = {key: name for key, name in expected.items() if key[0] != 20}
        people.merge(
            [row((1, "x"), "merged"), row((99, "x"), f"merged {turn}")],
            on="target.id = source.id and target.area = source.area",
        ).when_matched_update_all().when_not_matched_insert_all().execute()
        expected |= {(1, "x"): "merged", (99, "x"): f"merged {turn}"}
        require(people, expected)
        versions.append((people.flush(), dict(expected)))
    require(open_lake().table("shop.people"), expected)
    for version, then in versions:
        assert by_key(people.at(version=version).scan().to_pylist()) == then
    people.compact()
    require(people, expected)
    people.compact(everything=True)
    require(people, expected)
    people.overwrite([row((7, "y"), "alone")], where="id < 50")
    expected = {key: name for key, name in expected.items() if key[0] >= 50} | {(7, "y"): "alone"}
    require(people, expected)
    people.restore(versions[1][0])
    require(people, versions[1][1])
    people.put(row((3, "x"), "after"))
    require(people, versions[1][1] | {(3, "x"): "after"})
    specs = specs_of(people.properties)
    assert [one["id"] for one in specs] == list(range(len(specs)))
    assert people.properties.get("moulin.regions", "") == specs[-1]["regions"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "append", "delete", "divide", "divide", "flush", "compact", "reopen"]),
        st.sets(st.tuples(st.integers(0, 12), st.sampled_from("xy")), min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=12, deadline=None)
@given(STEPS)
def test_histories_with_divisions_are_those_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, set[tuple[int, str]]]]
) -> None:
    folder, expected, versions = tmp_path_factory.mktemp("divided"), Rows(), list[tuple[int, Rows]]()
    lake = Lake.open(folder)
    try:
        lake.create_database("shop")
        table = lake.create_table("shop.t", COLUMNS, primary_key=KEY)
        for number, (step, keys) in enumerate(steps):
            rows = dict.fromkeys(sorted(keys), f"{step} {number}")
            match step:
                case "put":
                    table.put_batch([row(key, name) for key, name in rows.items()])
                    expected |= rows
                case "append":
                    table.append([row(key, name) for key, name in rows.items()])
                    expected |= rows
                case "delete":
                    table.delete_batch(list(keys))
                    expected = {key: name for key, name in expected.items() if key not in keys}
                case "divide":
                    table.set_regions(DIVISIONS[len(keys) % len(DIVISIONS)])
                case "flush":
                    versions.append((table.flush(), dict(expected)))
                case "compact":
                    table.compact(everything=len(keys) % 2 == 0)
                case "reopen":
                    lake.close()
                    lake = Lake.open(folder)
                    table = lake.table("shop.t")
            require(table, expected)
        for version, then in versions:
            assert by_key(table.at(version=version).scan().to_pylist()) == then
        assert check(lake.catalog) == []
    finally:
        lake.close()


@FOLDER
def test_writers_go_on_while_keys_are_divided_otherwise(lake: Lake, people: Table) -> None:
    done, failed = threading.Event(), list[BaseException]()
    written: list[Rows] = [{} for _ in range(3)]

    def write(number: int) -> None:
        source, mine = random.Random(number), lake.table("shop.people")
        turn = 0
        try:
            while not done.is_set():
                turn += 1
                key = 3 * source.randrange(15) + number, source.choice("xy")
                match source.randrange(4):
                    case 0:
                        mine.delete(key)
                        written[number].pop(key, None)
                    case 1:
                        mine.put_batch([row(key, f"{turn}")])
                        written[number][key] = f"{turn}"
                    case _:
                        mine.put(row(key, f"{turn}"))
                        written[number][key] = f"{turn}"
                assert (mine.get(key) or {}).get("name") == written[number].get(key)
        except BaseException as error:  # noqa: BLE001 - the test must hear of it
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for fields in DIVISIONS:
        people.set_regions(fields)
        by_key(people.scan().to_pylist())
    done.set()
    for thread in threads:
        thread.join()
    assert not failed
    require(people, {key: name for some in written for key, name in some.items()})


@FOLDER
def test_a_region_of_an_earlier_division_is_not_claimed_when_none_was_before(lake: Lake, people: Table) -> None:
    """Divisions without a claim between them have the same highest number: a late claim was taken for a new region."""
    people.set_regions(["bucket(4, id)"])
    state = people.state()
    earlier = RegionSpec.of(state.schema, state.properties)
    people.set_regions(["area"])
    with pytest.raises(InvalidInput, match="its regions have changed"):
        lake.catalog.region(people.id, earlier.value_of((1, "x")))
    people.put(row((1, "x"), "a"))
    people.put(row((1, "x"), "b"))
    require(people, {(1, "x"): "b"})


@FOLDER
def test_another_process_is_asked_first_and_finds_the_new_regions(
    lake: Lake, people: Table, open_lake: OpenLake
) -> None:
    other = open_lake().table("shop.people")  # a lake of its own, as another process has one
    other.put(row((1, "x"), "theirs"))
    with pytest.raises(Fenced):
        open_lake(settings={"lock_seconds": 0.1}).table("shop.people").set_regions(["bucket(4, id)"])
    other.close()
    people.set_regions(["bucket(4, id)"])
    again = open_lake().table("shop.people")
    people.put(row((1, "x"), "mine"))
    people.close()
    again.put(row((1, "x"), "again"))
    again.put(row((2, "x"), "new"))
    require(again, {(1, "x"): "again", (2, "x"): "new"})
    again.set_regions(["area"])
    again.close()
    people = open_lake().table("shop.people")
    people.put(row((2, "x"), "last"))
    require(people, {(1, "x"): "again", (2, "x"): "last"})


@FOLDER
@pytest.mark.parametrize("before", [[], ["bucket(2, id)"]])
def test_an_append_goes_to_the_regions_that_there_are_when_it_gets_hold_of_them(
    people: Table, open_lake: OpenLake, monkeypatch: pytest.MonkeyPatch, before: list[str]
) -> None:
    people.put(row((1, "x"), "put"))
    if before:
        people.set_regions(before)
    people.close()
    mine, other, held = open_lake().table("shop.people"), open_lake().table("shop.people"), KeyedTable.held
    divided: list[int] = []

    def late(keyed: KeyedTable, *given: Any, **named: Any) -> Any:
        if keyed is mine._keyed() and not divided:
            divided.append(1)
            other.set_regions(["area"])
            other.close()
        return held(keyed, *given, **named)

    monkeypatch.setattr(KeyedTable, "held", late)
    mine.append(iter([row((1, "x"), "appended"), row((2, "y"), "appended")]))
    assert divided
    require(mine, {(1, "x"): "appended", (2, "y"): "appended"})


@FOLDER
@pytest.mark.parametrize("change", ["delete_where", "overwrite"])
def test_a_change_holds_the_regions_that_there_are_when_keys_are_divided_meanwhile(
    people: Table, open_lake: OpenLake, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    people.append([row((n, "x"), "old") for n in range(4)])
    people.close()
    mine, other, regions = open_lake().table("shop.people"), open_lake().table("shop.people"), Catalog.regions
    divided: list[int] = []

    def late(catalog: Catalog, table_id: Any) -> Any:
        """The keys are divided otherwise after the regions were listed."""
        found = regions(catalog, table_id)
        if catalog is mine._context.catalog and not divided:
            divided.append(1)
            other.set_regions(["bucket(4, id)"])
            other.put(row((2, "x"), "new"))
            other.close()
        return found

    monkeypatch.setattr(Catalog, "regions", late)
    if change == "delete_where":
        assert mine.delete_where("name = 'new' or id = 0").rows_deleted == 2
        require(mine, {(1, "x"): "old", (3, "x"): "old"})
    else:
        mine.overwrite([row((n, "y"), "all") for n in range(9)])
        for n in range(9):
            mine.put(row((n, "y"), "put"))
        require(mine, {(n, "y"): "put" for n in range(9)})
    assert divided


@FOLDER
def test_a_region_of_an_earlier_division_is_claimed_by_nobody(lake: Lake, people: Table) -> None:
    people.put(row((1, "x"), "a"))
    people.set_regions(["area"])
    catalog = lake.own_catalog()
    with pytest.raises(Fenced, match=r"The regions of .* have changed"):
        catalog.claim_region(people.id, 0, "somebody")
    with pytest.raises(InvalidInput, match="has no such region"):
        catalog.region(people.id, (b"x",))
    assert not catalog.claimed_tables()


@FOLDER
def test_expressions_divide_keys_as_python_does(lake: Lake) -> None:
    table = lake.create_table(
        "shop.by_value", COLUMNS, primary_key=KEY, properties={"moulin.regions": "id - 2, area = 'x, y'"}
    )
    keys = [(number, area) for number in range(6) for area in ("x", "x, y")]
    table.put_batch([row(key, "a") for key in keys])
    table.flush()
    regions = {region.number: region.value for region in lake.own_catalog().regions(table.id)}
    expected = {(n - 2).to_bytes(8, "little", signed=True) + bytes([area == "x, y"]) for n, area in keys}
    assert {b"".join(part or b"" for part in value) for value in regions.values()} == expected
    for segment in table.scan().plan().segments:
        one = next(
            r for r in table.scan(columns=[*KEY, "_segment"]).to_pylist() if r["_segment"] == segment.facts.number
        )
        value = (one["id"] - 2).to_bytes(8, "little", signed=True) + bytes([one["area"] == "x, y"])
        assert b"".join(part or b"" for part in regions[segment.facts.region]) == value


@FOLDER
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lower(area)", "lower and upper"),
        ("area ilike 'x%'", "lower and upper"),
        ("name = 'x'", "There is no column 'name'"),
        ("id / 2", "an integer, a string or a condition"),
        ("id + 0.5", "an integer, a string or a condition"),
        ("1 = 1", "uses no key column"),
        ("elsewhere(id)", "cannot use the function"),
        ("void(id)", "does not divide"),
    ],
)
def test_what_is_not_the_same_for_a_key_for_ever_divides_none(people: Table, text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        people.set_regions([text])


@FOLDER
def test_only_key_columns_divide_and_only_where_nobody_is_surprised(lake: Lake, people: Table) -> None:
    with pytest.raises(InvalidInput, match="key columns alone"):
        people.set_regions(["name"])
    with pytest.raises(InvalidInput, match="takes a list"):
        people.set_regions("area")
    people.append([row((0, "x"), "a")])
    with pytest.raises(FailedPrecondition, match="with set_regions"):
        people.set_properties({"moulin.regions": "area"})
    with pytest.raises(InvalidInput):
        people.set_properties({HISTORY: "[]"})
    events = lake.create_table("shop.events", COLUMNS)
    with pytest.raises(FailedPrecondition, match="no primary key"):
        events.set_regions(["area"])
    people.append([row((1, "x"), "a")])
    branch = lake.branch("exp").table("shop.people")
    branch.append([row((1, "x"), "branch")])
    with pytest.raises(FailedPrecondition, match="is on a branch"):
        branch.set_regions(["area"])
    people.set_regions(["area"])
    with pytest.raises(Conflict, match="divided into other regions on main"):
        lake.publish("exp")
    version = people.state().head_version
    assert people.set_regions(["area"]).version == version, "nothing to change"


@FOLDER
def test_a_clone_of_an_older_version_is_divided_by_itself(lake: Lake, people: Table) -> None:
    people.append([row((number, "x"), "a") for number in range(5)])
    before = people.state().version
    people.set_regions(["bucket(4, id)"])
    people.append([row((number, "x"), "b") for number in range(3)])
    old = lake.clone_table("shop.people", "shop.old", at=before)
    new = lake.clone_table("shop.people", "shop.new")
    for table, expected in ((old, "a"), (new, "b")):
        table.put(row((1, "x"), "put"))
        table.set_regions(["bucket(4, id)", "area"])
        table.put(row((2, "x"), "put"))
        rows = {(number, "x"): expected for number in range(3)} | {(3, "x"): "a", (4, "x"): "a"}
        require(table, rows | {(1, "x"): "put", (2, "x"): "put"})
    require(people, {(n, "x"): "b" if n < 3 else "a" for n in range(5)})


@FOLDER
def test_new_regions_are_claimed_once_their_manifest_is_in_storage(
    lake: Lake, people: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lake.own_catalog()
    people.put(row((1, "x"), "a"))
    people.flush()
    for name in ("publish_soon", "publish_quietly"):
        monkeypatch.setattr(catalog.publisher, name, lambda: None)
    version = people.set_regions(["area"]).version
    assert catalog.published_version() < version
    people.put(row((1, "x"), "b"))
    assert catalog.published_version() >= version


@pytest.mark.parametrize("log_folder", ["", "store"])
def test_a_recovered_lake_has_what_was_put_into_new_regions(tmp_path: Path, log_folder: str) -> None:
    address, options = tmp_path / "lake", {"log_folder": log_folder}
    expected: Rows = {}
    lake = Lake.open(address, settings=options)
    lake.create_database("shop")
    table = lake.create_table("shop.people", COLUMNS, primary_key=KEY)
    for turn, fields in enumerate(DIVISIONS[:4]):
        for number in range(12):
            key = (number + 3 * turn, "xy"[number % 2])
            table.put(row(key, f"{turn}"))
            expected[key] = f"{turn}"
        table.set_regions(fields)
    for number in range(6):  # only in the logs of the newest regions
        table.put(row((number, "x"), "log"))
        expected[number, "x"] = "log"
    copy = tmp_path / "copy"
    _copy(address, copy)
    lake.close()
    for file in copy.glob("catalog.sqlite*"):
        file.unlink()
    uri, store, config = locate(str(copy), None, None, options)
    recover(store, uri, config, find_regions=partial(regions_in_logs, store, config))
    with Lake.open(copy, settings=options) as again:
        table = again.table("shop.people")
        table.flush(take_over=True)
        require(table, expected)
        table.put(row((0, "x"), "again"))
        table.set_regions(["bucket(2, id)"])
        table.put(row((1, "x"), "again"))
        require(table, expected | {(0, "x"): "again", (1, "x"): "again"})
        assert check(again.catalog) == []


def _copy(source: Path, target: Path) -> None:
    """The files of a lake as a crash would leave them."""
    for file in sorted(source.rglob("*")):
        if file.is_file() and "living" not in file.parts:
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
