"""Edits: rows that a statement inserts, updates and deletes, committed as one version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from moulin import Lake, Table
from moulin.errors import Conflict, InvalidInput
from moulin.formats.segment.reader import SegmentReader
from moulin.model.entities import TableState
from moulin.model.schema.arrow import arrow_schema
from moulin.table.commit.vectors import read_vector
from moulin.table.edit.edits import CLAUSE, POSITION, SEGMENT, Action, Clause, Edits, edit_schema

OpenLake = Callable[..., Lake]

SCHEMA = [("id", "long", False), ("note", "string"), ("at", "timestamp_ns"), ("day", "string")]
UPDATE_NOTE, DELETE = Clause(Action.UPDATE, ("note",)), Clause(Action.DELETE)
INSERT = Clause(Action.INSERT, ("id", "note"))


@pytest.fixture(params=["event", "keyed", "partitioned"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    more: dict[str, Any] = {
        "event": {},
        "keyed": {"primary_key": ["id"]},
        "partitioned": {"partition_by": ["day"]},
    }[request.param]
    made = lake.create_table("shop.items", SCHEMA, **more)
    made.append(_rows(range(6)))
    made.append(_rows(range(6, 12)))
    return made


def _rows(ids: Sequence[int]) -> list[dict[str, Any]]:
    # 12:00:00.000000001 and so on: microseconds cannot hold them
    return [{"id": n, "note": "old", "at": f"2024-03-01T12:00:00.00000000{n % 10}", "day": f"d{n % 2}"} for n in ids]


def _places(table: Table, state: TableState) -> dict[int, tuple[int, int]]:
    """The segment and position of each id, read from the segments themselves."""
    context, found = table._context, {}
    for segment in context.catalog.segments(state.id, state.version):
        facts = segment.facts
        deleted = None if segment.vector is None else read_vector(context.store, segment.vector, facts.rows)
        with SegmentReader(context.store.reader(facts.path, facts.size), state.schema, columns=["id"]) as reader:
            read = reader.table(position=True, deleted=deleted)
        for number, position in zip(read.column("id").to_pylist(), read.column("_pos").to_pylist(), strict=True):
            found[number] = (facts.number, position)
    return found


def _edits(table: Table, *edits: tuple[int, int | None, dict[str, Any]]) -> Callable[[TableState], Edits]:
    """Edits of (clause, id of the row that it is about, values) with the clauses UPDATE_NOTE, DELETE and INSERT."""
    clauses = (UPDATE_NOTE, DELETE, INSERT)

    def compute(state: TableState) -> Edits:
        places = _places(table, state)
        schema = arrow_schema(edit_schema(state.schema, clauses))
        rows = []
        for clause, number, values in edits:
            segment, position = (None, None) if number is None else places[number]
            rows.append({CLAUSE: clause, SEGMENT: segment, POSITION: position, **values})
        return Edits(clauses, [pa.RecordBatch.from_pylist(rows, schema)])

    return compute


def _notes(table: Table) -> dict[int, str | None]:
    return {row["id"]: row["note"] for row in table.scan().to_pylist()}


def test_a_statement_updates_deletes_and_inserts_in_one_version(table: Table) -> None:
    before = table.version
    ids = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_pylist()}
    done = table.edit(
        _edits(table, (0, 1, {"note": "new"}), (0, 8, {"note": None}), (1, 3, {}), (2, None, {"id": 50, "note": "in"})),
        "MERGE",
    )
    assert (done.rows_updated, done.rows_deleted, done.rows_added) == (2, 1, 1)
    assert (table.version, done.version) == (before + 1, before + 1)
    expected = {n: "old" for n in range(12) if n != 3} | {1: "new", 8: None, 50: "in"}
    assert _notes(table) == expected
    after = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_pylist()}
    assert {n: after[n] for n in ids if n != 3} == {n: ids[n] for n in ids if n != 3}
    assert after[50] not in ids.values()
    changes = table.changes(before).to_pylist()
    assert sorted((c["_change_type"], c["id"]) for c in changes) == [
        ("delete", 3),
        ("insert", 50),
        ("update_after", 1),
        ("update_after", 8),
        ("update_before", 1),
        ("update_before", 8),
    ]


def test_columns_that_a_clause_does_not_give_stay_to_the_nanosecond(table: Table) -> None:
    before = {row["id"]: row["at"] for row in table.scan().to_pylist()}
    table.edit(_edits(table, *((0, n, {"note": "new"}) for n in range(12))), "UPDATE")
    assert {row["id"]: row["at"] for row in table.scan().to_pylist()} == before
    assert isinstance(before[3], datetime)


def test_two_edits_of_one_row_are_refused(table: Table) -> None:
    before = table.version
    with pytest.raises(InvalidInput, match="More than one source row"):
        table.edit(_edits(table, (0, 1, {"note": "a"}), (0, 1, {"note": "b"})), "MERGE")
    with pytest.raises(InvalidInput, match="More than one source row"):
        table.edit(_edits(table, (0, 1, {"note": "a"}), (1, 1, {})), "MERGE")
    assert table.version == before


def test_nothing_to_change_makes_no_version(table: Table) -> None:
    before = table.version
    done = table.edit(lambda state: Edits((UPDATE_NOTE,), []), "UPDATE")
    assert (table.version, done.version, done.rows_updated) == (before, before, 0)


def test_null_for_a_required_column_is_refused_by_name(table: Table) -> None:
    with pytest.raises(InvalidInput, match="Column id of shop.items: it is null.*the row with note = 'x'"):
        table.edit(_edits(table, (2, None, {"note": "x"})), "MERGE")


def test_an_update_follows_its_rows_through_a_compaction(table: Table, open_lake: OpenLake) -> None:
    compute = _edits(table, (0, 1, {"note": "new"}), (1, 9, {}))
    calls = []

    def beside(state: TableState) -> Edits:
        calls.append(state.version)
        made = compute(state)
        if len(calls) == 1:
            open_lake().table("shop.items").compact(everything=True)
        return made

    done = table.edit(beside, "UPDATE")
    assert len(calls) == 1, "positions are carried over: nothing is computed again"
    assert (done.rows_updated, done.rows_deleted) == (1, 1)
    assert _notes(table) == {n: "old" for n in range(12) if n != 9} | {1: "new"}


def test_an_update_is_computed_again_when_one_of_its_rows_is_gone(lake: Lake) -> None:
    table = lake.create_table("shop.items", SCHEMA)
    table.append(_rows(range(6)))
    calls = []

    def beside(state: TableState) -> Edits:
        places = _places(table, state)
        calls.append(sorted(places))
        chosen = [(0, n, {"note": "new"}) for n in (1, 2) if n in places]
        made = _edits(table, *chosen)(state)
        if len(calls) == 1:
            table.delete_where("id = 2")
        return made

    done = table.edit(beside, "UPDATE")
    assert len(calls) == 2
    assert done.rows_updated == 1
    assert _notes(table) == {0: "old", 1: "new", 3: "old", 4: "old", 5: "old"}


def test_a_row_deleted_before_a_compaction_does_not_come_back(lake: Lake) -> None:
    table = lake.create_table("shop.items", SCHEMA)
    table.append(_rows(range(6)))
    calls = []

    def beside(state: TableState) -> Edits:
        calls.append(state.version)
        places = _places(table, state)
        made = _edits(table, *((0, n, {"note": "new"}) for n in (1, 2) if n in places))(state)
        if len(calls) == 1:
            table.delete_where("id = 2")
            table.compact(everything=True)
        return made

    assert table.edit(beside, "UPDATE").rows_updated == 1
    assert _notes(table) == {0: "old", 1: "new", 3: "old", 4: "old", 5: "old"}


def test_an_update_that_loses_every_race_is_a_conflict(open_lake: OpenLake) -> None:
    with open_lake(settings={"commit_attempts": 2}) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.items", SCHEMA)
        table.append(_rows(range(6)))
        left = [0, 1, 2]

        def beside(state: TableState) -> Edits:
            first = left.pop(0)
            made = _edits(table, (0, first, {"note": "new"}))(state)
            table.delete_where(f"id = {first}")
            return made

        with pytest.raises(Conflict, match="conflicts with another commit"):
            table.edit(beside, "UPDATE")
        assert "new" not in _notes(table).values()


def test_a_key_that_is_there_cannot_be_inserted_by_an_edit(lake: Lake) -> None:
    table = lake.create_table("shop.items", SCHEMA, primary_key=["id"])
    table.append(_rows(range(3)))
    with pytest.raises(InvalidInput, match="has a row of the key 2"):
        table.edit(_edits(table, (2, None, {"id": 2, "note": "x"})), "MERGE")
    with pytest.raises(InvalidInput, match="more than once"):
        table.edit(_edits(table, (2, None, {"id": 9, "note": "x"}), (2, None, {"id": 9, "note": "y"})), "MERGE")
    assert _notes(table) == {0: "old", 1: "old", 2: "old"}


def test_partitions_are_overwritten_by_the_rows_that_come(lake: Lake) -> None:
    table = lake.create_table("shop.items", SCHEMA, partition_by=["day"])
    table.append(_rows(range(6)))
    done = table.overwrite_partitions([{"id": 7, "note": "in", "day": "d1"}])
    assert (done.rows_added, done.rows_deleted) == (1, 3)
    assert _notes(table) == {0: "old", 2: "old", 4: "old", 7: "in"}
    assert table.overwrite_partitions([]).version == done.version
