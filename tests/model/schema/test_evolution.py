from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import AlreadyExists, Conflict, Corrupt, FailedPrecondition, InvalidInput, MoulinError, NotFound
from moulin.model.facts import ColumnFacts
from moulin.model.schema.change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetDefault,
    SetDoc,
    SetNullable,
    SetRequired,
    WidenColumn,
    change_from_json,
    change_to_json,
)
from moulin.model.schema.documents import schema_from_json, schema_to_json
from moulin.model.schema.evolution import apply_changes
from moulin.model.schema.nulls import first_in_doubt, newly_required
from moulin.model.schema.schema import make_schema
from moulin.model.schema.type_reader import to_type
from moulin.model.schema.values import Schema

SCHEMA = make_schema(
    [
        ("id", "long"),
        ("day", "date"),
        ("price", "decimal(9, 2)"),
        ("address", "struct<city: string, zip: int>"),
        ("tags", "list<int>"),
        ("events", "list<struct<at: timestamp>>"),
        ("counts", "map<string, float>"),
        ("note", "string", False),
    ],
    primary_key=["id"],
)
LAST = SCHEMA.highest_field_id


def change(*changes: SchemaChange, schema: Schema = SCHEMA, **rules: Any) -> Schema:
    return apply_changes(schema, rules.pop("last", LAST), changes, schema_id=1, **rules)[0]


def add(name: str, kind: str, **rest: Any) -> AddColumn:
    return AddColumn(name, to_type(kind), **rest)


def widen(name: str, kind: str) -> WidenColumn:
    return WidenColumn(name, to_type(kind))


def test_added_columns_get_fresh_ids_and_defaults_for_rows_old_and_new() -> None:
    schema, last = apply_changes(
        SCHEMA,
        LAST + 100,
        [add("a", "struct<x: int>"), add("b", "date", default="2024-02-29", required=True)],
        schema_id=3,
    )
    assert [(field.name, field.field_id) for field in schema.fields[-2:]] == [("a", LAST + 101), ("b", LAST + 103)]
    assert schema.find_field("a.x").field_id == LAST + 102
    assert last == LAST + 103
    assert schema.schema_id == 3
    added = schema.find_field("b")
    assert (added.initial_default, added.write_default, added.required) == (date(2024, 2, 29), date(2024, 2, 29), True)


def test_columns_are_added_inside_structs_lists_and_maps() -> None:
    schema = change(add("address.street", "string"), add("events.element.kind", "int"), add("events.who", "uuid"))
    assert schema.find_field("address.street").field_id == LAST + 1
    assert schema.find_field("events.element.kind").field_id == LAST + 2
    assert schema.find_field("events.element.who").field_id == LAST + 3


@pytest.mark.parametrize(
    ("wrong", "error", "reason"),
    [
        (lambda: add("note", "int"), AlreadyExists, "already exists: 'note'"),
        (lambda: add("NOTE", "int"), AlreadyExists, "already exists: 'note'"),
        (lambda: add("address.City", "int"), AlreadyExists, r"already exists: 'address\.city'"),
        (lambda: add("nowhere.x", "int"), NotFound, r"no column 'nowhere\.x'"),
        (lambda: add("note.x", "int"), NotFound, r"no column 'note\.x'"),
        (lambda: add("tags.element", "int"), AlreadyExists, r"already exists: 'tags\.element'"),
        (lambda: add("tags.other", "int"), NotFound, r"no column 'tags\.other'"),
        (lambda: add("counts.key.x", "int"), InvalidInput, "Keys of a map"),
        (lambda: add("day_month", "int"), AlreadyExists, "partition field"),
        (lambda: add("x", "int", required=True), InvalidInput, "required without a default"),
        (lambda: add("x", "int", default="seven"), InvalidInput, "does not fit its type int"),
        (lambda: add("x", "list<int>", default=[]), InvalidInput, "not possible"),
        (lambda: add("_row_id", "long"), InvalidInput, "reserved"),
        (lambda: AddColumn("x", "strng"), InvalidInput, "Did you mean 'string'"),  # type: ignore[arg-type]
        (lambda: add("", "int"), InvalidInput, "not a column name"),
        (lambda: RenameColumn("id", "note"), AlreadyExists, "already exists: 'note'"),
        (lambda: RenameColumn("id", "Day"), AlreadyExists, "already exists: 'day'"),
        (lambda: RenameColumn("id", "day_month"), AlreadyExists, "partition field"),
        (lambda: RenameColumn("ID", "x"), NotFound, "Did you mean 'id'"),
        (lambda: RenameColumn("id", "a.b"), InvalidInput, r"contains '\.'"),
        (lambda: RenameColumn("tags.element", "item"), InvalidInput, "element of a list or map"),
        (lambda: DropColumn("nope"), NotFound, "The columns are: id, day, price"),
        (lambda: DropColumn("id"), FailedPrecondition, "part of the primary key"),
        (lambda: DropColumn("day"), FailedPrecondition, "partitioning uses it"),
        (lambda: DropColumn("address"), FailedPrecondition, "the sort order uses it"),
        (lambda: DropColumn("tags.element"), InvalidInput, "element of a list or map"),
        (lambda: widen("note", "long"), InvalidInput, "string cannot become long"),
        (lambda: widen("id", "int"), InvalidInput, "long cannot become int"),
        (lambda: widen("id", "long"), InvalidInput, "long cannot become long"),
        (lambda: widen("price", "decimal(12, 3)"), InvalidInput, "same scale"),
        (lambda: widen("price", "decimal(8, 2)"), InvalidInput, "cannot become"),
        (lambda: widen("day", "timestamptz"), InvalidInput, "cannot become"),
        (lambda: widen("day", "timestamp"), FailedPrecondition, "partitioning uses its days"),
        (lambda: widen("address", "long"), InvalidInput, "cannot become"),
        (lambda: MoveColumn("id", after="nope"), NotFound, "no column 'nope'"),
        (lambda: MoveColumn("nope", first=True), NotFound, "no column 'nope'"),
        (lambda: MoveColumn("id", after="id"), InvalidInput, "next to itself"),
        (lambda: MoveColumn("id"), InvalidInput, "exactly one"),
        (lambda: MoveColumn("id", first=True, after="day"), InvalidInput, "exactly one"),
        (lambda: SetNullable("id"), FailedPrecondition, "part of the primary key"),
        (lambda: SetNullable("nope"), NotFound, "no column"),
    ],
)
def test_impossible_changes_are_refused(wrong: Any, error: type[MoulinError], reason: str) -> None:
    in_use = {
        SCHEMA.find_field("day").field_id: "partitioning",
        SCHEMA.find_field("address.zip").field_id: "the sort order",
    }
    with pytest.raises(error, match=reason):
        change(wrong(), in_use=in_use, partition_names=["day_month"])


def test_ids_in_use_may_be_given_without_saying_for_what() -> None:
    with pytest.raises(FailedPrecondition, match="partitioning, sort order or event time uses it"):
        change(DropColumn("note"), in_use=[SCHEMA.find_field("note").field_id])


def test_days_that_partitions_of_the_past_hold_stay_days_but_may_be_dropped() -> None:
    past = [SCHEMA.find_field("day").field_id]
    with pytest.raises(FailedPrecondition, match="earlier partitioning uses its days"):
        change(widen("day", "timestamp"), partition_sources=past)
    assert "day" not in change(DropColumn("day"), partition_sources=past).column_names
    assert str(change(widen("day", "timestamp")).find_type("day")) == "timestamp"


def test_the_last_column_stays() -> None:
    schema = make_schema([("a", "int"), ("b", "int")])
    with pytest.raises(FailedPrecondition, match="it is the only one"):
        change(DropColumn("a"), DropColumn("b"), schema=schema, last=2)
    with pytest.raises(FailedPrecondition, match=r"address\.zip.* it is the only one"):
        change(DropColumn("address.city"), DropColumn("address.zip"))
    other = change(DropColumn("a"), DropColumn("b"), add("a", "string"), schema=schema, last=2)
    assert [(field.field_id, field.name) for field in other.fields] == [(3, "a")]


def test_a_rename_keeps_the_id_and_may_change_case_alone() -> None:
    schema = change(RenameColumn("note", "NOTE"), RenameColumn("address.zip", "code"))
    assert schema.find_field("NOTE").field_id == SCHEMA.find_field("note").field_id
    assert schema.find_field("address.code").field_id == SCHEMA.find_field("address.zip").field_id


def test_a_dropped_name_comes_back_as_another_column() -> None:
    schema = change(DropColumn("note"), add("note", "string"))
    assert schema.find_field("note").field_id == LAST + 1


def test_widening_reaches_elements_and_map_values_and_takes_defaults_along() -> None:
    dated = change(add("since", "date", default="2024-01-01"), add("ratio", "float", default=0.1))
    schema = change(
        widen("tags.element", "long"),
        widen("counts.value", "double"),
        widen("address.zip", "long"),
        widen("price", "decimal(20, 2)"),
        widen("since", "timestamp_ns"),
        widen("ratio", "double"),
        schema=dated,
        last=LAST + 2,
    )
    assert str(schema.find_type("tags")) == "list<long>"
    assert str(schema.find_type("counts")) == "map<string, double>"
    assert schema.find_field("since").initial_default == 1704067200 * 10**9
    assert schema.find_field("ratio").write_default == 0.10000000149011612  # what old files hold, read as double
    assert schema_from_json(schema_to_json(schema)) == schema
    again = change(widen("since", "timestamp"), schema=dated, last=LAST + 2)
    assert again.find_field("since").initial_default == datetime(2024, 1, 1)


def test_columns_move_and_keep_the_key() -> None:
    schema = change(
        MoveColumn("note", first=True),
        MoveColumn("id", after="price"),
        MoveColumn("tags", before="day"),
        MoveColumn("address.zip", before="city"),
    )
    assert [field.name for field in schema.fields] == [
        *("note", "tags", "day", "price", "id", "address", "events", "counts"),
    ]
    assert [field.name for field in schema.find_type("address").fields] == ["zip", "city"]  # type: ignore[attr-defined]
    assert schema.identifier_field_ids == SCHEMA.identifier_field_ids


def test_a_required_column_can_become_nullable() -> None:
    assert SCHEMA.find_field("note").required
    assert not change(SetNullable("note")).find_field("note").required


def test_a_nullable_column_can_become_required() -> None:
    nullable = change(SetNullable("note"))
    assert newly_required(nullable, SCHEMA) == [SCHEMA.find_field("note")]
    assert newly_required(SCHEMA, nullable) == []
    assert change(SetNullable("note"), SetRequired("note")).fields == SCHEMA.fields
    assert change(SetRequired("note")).fields == SCHEMA.fields


@pytest.mark.parametrize(
    ("nulls", "doubtful"), [([], "note"), ([1], "note"), ([0], None)], ids=["no facts", "a null", "no null"]
)
def test_facts_without_a_null_leave_no_doubt(nulls: list[int], doubtful: str | None) -> None:
    facts = [ColumnFacts(SCHEMA.find_field("note").field_id, 3, count) for count in nulls]
    assert first_in_doubt(change(SetNullable("note")), SCHEMA, facts) == doubtful
    assert first_in_doubt(SCHEMA, SCHEMA, facts) is None


def test_a_refused_change_leaves_nothing_behind() -> None:
    before = schema_to_json(SCHEMA)
    with pytest.raises(NotFound):
        change(DropColumn("note"), DropColumn("note"))
    assert schema_to_json(SCHEMA) == before


def test_comments_and_defaults_change_without_touching_older_rows() -> None:
    made = change(SetDoc("address.city", "where"), SetDefault("price", to_type("decimal(9, 2)"), "1.5"))
    assert made.find_field("address.city").doc == "where"
    assert (made.find_field("price").initial_default, str(made.find_field("price").write_default)) == (None, "1.50")
    again = change(SetDoc("address.city"), SetDefault("price", to_type("decimal(9, 2)")), schema=made)
    assert again == SCHEMA
    with pytest.raises(NotFound):
        change(SetDoc("nothing", "x"))
    with pytest.raises(Conflict, match="now has type"):
        change(widen("price", "decimal(10, 2)"), SetDefault("price", to_type("decimal(9, 2)"), "1"))
    with pytest.raises(InvalidInput, match="does not fit"):
        SetDefault("price", to_type("decimal(9, 2)"), "x")
    with pytest.raises(InvalidInput, match="zero byte"):
        SetDoc("price", "a\0b")


CHANGES: list[SchemaChange] = [
    add("a", "long"),
    add("a.b", "timestamptz_ns", default="2024-01-01T00:00:00.000000001Z", required=True, doc="when"),
    add("a", "uuid", default="f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    add("a", "decimal(38, 2)", default="1.50"),
    add("a", "fixed[3]", default=b"\x00\x01\xff"),
    add("a", "boolean", default=False),
    add("a", "map<string, list<struct<x: int, y: decimal(3, 1)>>>"),
    RenameColumn("a", "b"),
    DropColumn("a.b"),
    widen("a", "decimal(10, 2)"),
    MoveColumn("a", first=True),
    MoveColumn("a", after="b"),
    MoveColumn("a", before="b"),
    SetNullable("a"),
    SetRequired("a"),
    SetDoc("a.b", "it's"),
    SetDoc("a"),
    SetDefault("a", to_type("decimal(9, 2)"), "1.5"),
    SetDefault("a", to_type("timestamp")),
]


@pytest.mark.parametrize("value", CHANGES, ids=repr)
def test_changes_survive_json_and_pickle(value: SchemaChange) -> None:
    assert change_from_json(change_to_json(value)) == value
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"action": "explode"}',
        '{"action": "drop-column"}',
        '{"action": "add-column", "name": "a", "type": "lng"}',
    ],
)
def test_damaged_changes_are_corrupt(text: str) -> None:
    with pytest.raises(Corrupt, match="schema change"):
        change_from_json(text)


@dataclass
class Column:
    name: str
    kind: str
    number: int
    required: bool


NAMES = st.sampled_from(["a", "b", "c", "A", "key"])
WIDER = {"int": "long", "float": "double", "date": "timestamp", "decimal(5, 1)": "decimal(7, 1)"}
KINDS = st.sampled_from([*WIDER, "string", "long"])
ANY_CHANGE = st.one_of(
    st.builds(add, NAMES, KINDS),
    st.builds(RenameColumn, NAMES, NAMES),
    st.builds(DropColumn, NAMES),
    st.builds(widen, NAMES, st.sampled_from(list(WIDER.values()))),
    st.builds(MoveColumn, NAMES, first=st.just(True)),
    st.builds(SetNullable, NAMES),
)


def model_apply(columns: list[Column], next_id: int, made: SchemaChange) -> list[Column] | None:
    """What a change does to a plain list of columns; None when it must be refused."""
    place = next((i for i, column in enumerate(columns) if column.name == made.name), None)
    rest = [column for i, column in enumerate(columns) if i != place]
    if isinstance(made, AddColumn):
        taken = any(column.name.lower() == made.name.lower() for column in columns)
        return None if taken else [*columns, Column(made.name, str(made.type), next_id, False)]
    if place is None:
        return None
    old = columns[place]
    if isinstance(made, RenameColumn):
        if any(column.name.lower() == made.new_name.lower() for column in rest):
            return None
        new = Column(made.new_name, old.kind, old.number, old.required)
    elif isinstance(made, DropColumn):
        return None if old.number == 1 or not rest else rest
    elif isinstance(made, WidenColumn):
        if WIDER.get(old.kind) != str(made.type):
            return None
        new = Column(old.name, str(made.type), old.number, old.required)
    elif isinstance(made, MoveColumn):
        return [old, *rest]
    else:
        if old.number == 1:
            return None
        new = Column(old.name, old.kind, old.number, False)
    return [*columns[:place], new, *columns[place + 1 :]]


@settings(max_examples=100, deadline=None)
@given(st.lists(ANY_CHANGE, max_size=25))
def test_any_sequence_of_changes_does_what_a_plain_list_does(made: list[SchemaChange]) -> None:
    schema = make_schema([("key", "int"), ("a", "int", False), ("b", "date")], primary_key=["key"])
    columns = [Column("key", "int", 1, True), Column("a", "int", 2, True), Column("b", "date", 3, False)]
    last = 3
    for step, one in enumerate(made):
        expected = model_apply(columns, last + 1, one)
        if expected is None:
            with pytest.raises((AlreadyExists, FailedPrecondition, InvalidInput, NotFound)):
                apply_changes(schema, last, [one], schema_id=step)
            continue
        schema, new_last = apply_changes(schema, last, [one], schema_id=step)
        assert new_last == last + isinstance(one, AddColumn)
        columns, last = expected, new_last
        found = [Column(field.name, str(field.field_type), field.field_id, field.required) for field in schema.fields]
        assert found == columns
        assert schema.identifier_field_ids == (1,)
        assert schema_from_json(schema_to_json(schema)) == schema
