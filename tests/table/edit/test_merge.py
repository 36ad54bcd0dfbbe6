"""`table.merge(source, on=...)`: any condition, any clauses, on event tables and keyed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moulin
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.lake import Lake
from moulin.table.edit import merge as merge_module
from moulin.table.table import Table
from tests.table.conftest import ids, rows
from tests.table.edit.conftest import Row, kinds, make_table, replayed, with_ids

SMALL = st.none() | st.integers(0, 3)
ROWS = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 9), "g": SMALL, "a": SMALL, "s": st.none() | st.sampled_from("xy")}),
    min_size=1,
    max_size=5,
)
SOURCE = st.lists(st.fixed_dictionaries({"id": st.integers(0, 12), "g": SMALL, "a": SMALL}), max_size=5)

Pair = Callable[[Row, Row], bool]


def _equal(one: Any, other: Any) -> bool:
    return one is not None and one == other


def _less(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


def _plus(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


ONS: dict[str, Pair] = {
    "target.id = source.id": lambda t, s: t["id"] == s["id"],
    "s.id = t.id and t.g = s.g": lambda t, s: t["id"] == s["id"] and _equal(t["g"], s["g"]),
    "t.g = s.g and t.a < s.a": lambda t, s: _equal(t["g"], s["g"]) and _less(t["a"], s["a"]),
    "t.id < s.id and s.g = 1": lambda t, s: t["id"] < s["id"] and s["g"] == 1,
    "t.id = s.id + 1 and t.a > 0": lambda t, s: t["id"] == s["id"] + 1 and _less(0, t["a"]),
    "t.g <=> s.g and t.id = 101": lambda t, s: t["g"] == s["g"] and t["id"] == 101,
    "(t.id = s.id or t.a is null) and t.g = s.g": lambda t, s: (
        (t["id"] == s["id"] or t["a"] is None) and _equal(t["g"], s["g"])
    ),
}

ON_PAIRS: dict[str | None, Pair] = {
    None: lambda t, s: True,
    "source.a > 1": lambda t, s: _less(1, s["a"]),
    "t.a is null": lambda t, s: t["a"] is None,
    "t.a = s.a": lambda t, s: _equal(t["a"], s["a"]),
}
ON_SOURCE: dict[str | None, Callable[[Row], bool]] = {
    None: lambda s: True,
    "s.a > 1": lambda s: _less(1, s["a"]),
    "s.g is not null": lambda s: s["g"] is not None,
}
ON_TARGET: dict[str | None, Callable[[Row], bool]] = {
    None: lambda t: True,
    "t.a > 1": lambda t: _less(1, t["a"]),
    "t.s = 'x'": lambda t: t["s"] == "x",
}

UPDATES: list[tuple[dict[str, Any] | None, Callable[[Row, Row], Row]]] = [
    ({"a": "t.a + s.a", "s": "'m'"}, lambda t, s: {"a": _plus(t["a"], s["a"]), "s": "m"}),
    ({"g": "source.a", "s": None}, lambda t, s: {"g": s["a"], "s": None}),
    ({"a": 9}, lambda t, s: {"a": 9}),
    (None, lambda t, s: {"g": s["g"], "a": s["a"]}),  # all columns; the condition then matches ids
]
INSERTS: list[tuple[dict[str, Any] | None, Callable[[Row], Row]]] = [
    (None, lambda s: {**s, "s": None}),
    ({"id": "s.id + 1000", "a": "s.g", "s": "'i'"}, lambda s: {"id": s["id"] + 1000, "g": None, "a": s["g"], "s": "i"}),
]

MATCHED = st.tuples(st.just("matched"), st.sampled_from(list(ON_PAIRS)), st.none() | st.sampled_from(UPDATES))
NOT_MATCHED = st.tuples(st.just("not matched"), st.sampled_from(list(ON_SOURCE)), st.sampled_from(INSERTS))
BY_SOURCE = st.tuples(
    st.just("by source"),
    st.sampled_from(list(ON_TARGET)),
    st.none() | st.just(({"a": "t.a + 1"}, lambda t, _: {"a": _plus(t["a"], 1)})),
)
CLAUSES = st.lists(st.one_of(MATCHED, NOT_MATCHED, BY_SOURCE), min_size=1, max_size=4)


class TwoMatches(Exception):
    """The model's InvalidInput."""


def _reachable(clauses: list[Any]) -> list[Any]:
    """The clauses less those behind one of the same kind without a condition."""
    kept: list[Any] = []
    for clause in clauses:
        if not any(one[0] == clause[0] and one[1] is None for one in kept):
            kept.append(clause)
    return kept


def merged(before: dict[int, Row], source: list[Row], on: Pair, clauses: list[Any]) -> tuple[dict[int, Row], list[Row]]:
    """What a merge makes of rows by row id: those that are left, and those that are new."""
    after, new = {}, []
    for number, t in before.items():
        partners = [s for s in source if on(t, s)]
        results: list[Row | None] = []
        for s in partners:
            chosen = next((c for c in clauses if c[0] == "matched" and ON_PAIRS[c[1]](t, s)), None)
            if chosen is not None:
                results.append(None if chosen[2] is None else {**t, **chosen[2][1](t, s)})
        if not partners:
            chosen = next((c for c in clauses if c[0] == "by source" and ON_TARGET[c[1]](t)), None)
            if chosen is not None:
                results.append(None if chosen[2] is None else {**t, **chosen[2][1](t, {})})
        if len(results) > 1:
            raise TwoMatches
        kept = results[0] if results else t
        if kept is not None:
            after[number] = kept
    for s in source:
        if not any(on(t, s) for t in before.values()):
            chosen = next((c for c in clauses if c[0] == "not matched" and ON_SOURCE[c[1]](s)), None)
            if chosen is not None:
                new.append(chosen[2][1](s))
    return after, new


def build(builder: moulin.MergeBuilder, clauses: list[Any]) -> moulin.MergeBuilder:
    for kind, condition, change in clauses:
        if kind == "matched" and change is None:
            builder.when_matched_delete(condition)
        elif kind == "matched" and change[0] is None:
            builder.when_matched_update_all(condition)
        elif kind == "matched":
            builder.when_matched_update(change[0], condition)
        elif kind == "not matched" and change[0] is None:
            builder.when_not_matched_insert_all(condition)
        elif kind == "not matched":
            builder.when_not_matched_insert(change[0], condition)
        elif change is None:
            builder.when_not_matched_by_source_delete(condition)
        else:
            builder.when_not_matched_by_source_update(change[0], condition)
    return builder


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(ROWS, min_size=1, max_size=3),
    source=SOURCE,
    on=st.sampled_from(list(ONS)),
    clauses=CLAUSES,
    keyed=st.booleans(),
    sliced=st.booleans(),
    pairs=st.sampled_from([2, 1 << 17]),
)
def test_a_merge_does_what_a_loop_over_dicts_does(
    folder_lake: Lake,
    parts: list[list[Row]],
    source: list[Row],
    on: str,
    clauses: list[Any],
    keyed: bool,
    sliced: bool,
    pairs: int,
) -> None:
    clauses = _reachable(clauses)
    if any(kind == "matched" and change and change[0] is None for kind, _, change in clauses):
        on = "target.id = source.id"
    if keyed and any(kind == "not matched" and change[0] is None for kind, _, change in clauses):
        on = "target.id = source.id"
    if keyed:  # what is inserted has keys of its own
        source = list({row["id"]: row for row in source}.values())
    table = make_table(folder_lake, parts, **({"primary_key": ["id"]} if keyed else {"partition_by": ["g"]}))
    before, since = with_ids(table), table.version
    with ExitStack() as stack:
        stack.enter_context(patch.object(merge_module, "_PAIRS", pairs))
        if sliced:
            stack.enter_context(patch("moulin.table.edit.slices._SLICE_BYTES", 1))
            stack.enter_context(patch("moulin.table.edit.slices._HELD_BYTES", 0))
        try:
            kept, new = merged(before, source, ONS[on], clauses)
        except TwoMatches:
            with pytest.raises(InvalidInput, match="More than one source row matches"):
                build(table.merge(source, on=on), clauses).execute()
            assert (table.version, with_ids(table)) == (since, before)
            return
        outcome = build(table.merge(source, on=on), clauses).execute()
    after = with_ids(table)
    assert {number: row for number, row in after.items() if number in before} == kept
    came = [row for number, row in after.items() if number not in before]
    assert Counter(tuple(sorted(row.items())) for row in came) == Counter(tuple(sorted(row.items())) for row in new)
    assert replayed(table, before, since) == after
    assert outcome.rows_added == len(new)
    assert outcome.rows_deleted == len(before) - len(kept)
    assert outcome.rows_updated >= sum(kept[number] != before[number] for number in kept)
    assert outcome.rows_added + outcome.rows_deleted == sum(
        kind in ("insert", "delete") for kind in kinds(table, since)
    )


def test_clauses_are_tried_in_their_order_and_counted(orders: Table) -> None:
    orders.append(rows(0, 5))
    since = orders.version
    outcome = (
        orders.merge([{"id": 1, "amount": 0.0}, {"id": 2, "amount": 7.0}, {"id": 9, "amount": 1.0}], on="t.id = s.id")
        .when_matched_delete(condition="source.amount = 0")
        .when_matched_update({"amount": "target.amount + source.amount"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"region": "'old'"}, condition="target.id > 3")
        .execute()
    )
    assert outcome == moulin.Outcome(since + 1, rows_added=1, rows_deleted=1, rows_updated=2)
    found = {row["id"]: (row["amount"], row["region"]) for row in orders.scan().to_pylist()}
    assert found == {0: (0.0, "eu"), 2: (9.0, "eu"), 3: (3.0, "eu"), 4: (4.0, "old"), 9: (1.0, None)}


@pytest.mark.parametrize("form", ["table", "batch", "reader", "list", "columns"])
def test_sources_come_in_every_form(orders: Table, form: str) -> None:
    orders.append(rows(0, 3))
    data = {"id": [1, 8], "amount": [5.0, 6.0]}
    table = pa.table(data)
    source: Any = {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "list": table.to_pylist(),
        "columns": data,
    }[form]
    builder = orders.merge(source, on="t.id = s.id")
    outcome = builder.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (outcome.rows_updated, outcome.rows_added) == (1, 1)
    assert {row["id"]: row["amount"] for row in orders.scan().to_pylist()} == {0: 0.0, 1: 5.0, 2: 2.0, 8: 6.0}


def test_an_empty_source_matches_nothing(orders: Table) -> None:
    orders.append(rows(0, 3))
    before = orders.version
    assert orders.merge([], on="t.id = s.id").when_matched_delete().execute().version == before
    outcome = orders.merge([], on="t.id = s.id").when_not_matched_by_source_delete("t.id = 1").execute()
    assert (outcome.rows_deleted, ids(orders)) == (1, [0, 2])


def test_a_merge_reads_only_segments_that_the_source_may_match(orders: Table) -> None:
    for part in range(4):
        orders.append(rows(10 * part, 5))
    seen: list[int] = []
    cut = merge_module.cut

    def watched(segments: Any) -> Any:
        seen.append(len(segments))
        return cut(segments)

    source = [{"id": 12, "amount": 1.0}, {"id": 13, "amount": 1.0}]
    with patch.object(merge_module, "cut", watched):
        orders.merge(source, on="t.id = s.id").when_matched_update_all().execute()
        orders.merge(source, on="t.id > s.id and t.id < 3").when_matched_delete().execute()
        orders.merge(source, on="t.id = s.id").when_not_matched_by_source_delete("t.id = 1").execute()
    assert seen == [1, 1, 5]


def test_a_merge_sees_what_was_put_and_keeps_row_ids(lake: Lake) -> None:
    table = lake.create_table("shop.items", [("id", "long", False), ("name", "string")], primary_key=["id"])
    table.put_batch([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table.flush()
    before = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_pylist()}
    table.put({"id": 3, "name": "c"})
    source = [{"id": 1, "name": "A"}, {"id": 3, "name": "C"}, {"id": 4, "name": "D"}]
    outcome = table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert (outcome.rows_updated, outcome.rows_added) == (2, 1)
    assert table.get_many([1, 2, 3, 4]) == [
        {"id": number, "name": name} for number, name in ((1, "A"), (2, "b"), (3, "C"), (4, "D"))
    ]
    after = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_pylist()}
    assert {key: after[key] for key in before} == before


def test_without_on_a_merge_is_by_key_and_at_once(lake: Lake, orders: Table) -> None:
    table = lake.create_table("shop.items", [("id", "long", False), ("name", "string")], primary_key=["id"])
    assert table.merge([{"id": 1, "name": "a"}]).rows_added == 1
    with pytest.raises(FailedPrecondition, match="no primary key"):
        orders.merge([{"id": 1}])


def _delete(builder: moulin.MergeBuilder) -> moulin.MergeBuilder:
    return builder.when_matched_delete()


BAD: list[tuple[str, Any, Callable[[moulin.MergeBuilder], Any], str]] = [
    ("t.idd = s.id", [{"id": 1}], _delete, "on: There is no column 'target.idd'. Did you mean"),
    ("id = s.id", [{"id": 1}], _delete, "Name columns as source.x and target.x"),
    ("t.region = s.id", [{"id": 1}], _delete, "cannot be compared"),
    ("t.id = s.id and length(t.region) = 1", [{"id": 1}], _delete, "lake.sql"),
    ("t.id = s.id", [{"id": 1}], lambda b: b, "would do nothing"),
    ("t.id = s.id", [{"id": "x"}], _delete, "Row 0 .* column id"),
    ("t.id = s.id", [{"id": 1}], lambda b: _delete(b).when_matched_delete(), "would never apply"),
    ("t.id = s.id", [{"id": 1}], lambda b: b.when_matched_update({"idd": 1}), "'idd'.*Did you mean 'id'"),
    ("t.id = s.id", [{"id": 1}], lambda b: b.when_matched_update(None), "must be a dict"),
    ("t.id = s.id", [{"id": 1}], lambda b: b.when_matched_update({"amount": "s.amount"}), "source.amount"),
    ("t.id = s.id", [{"id": 1}], lambda b: b.when_matched_update({"region": "s.id"}), "Column region: values"),
    (
        "t.id = s.id",
        [{"id": 1}],
        lambda b: b.when_matched_update({"id": None}),
        "when_matched_update of id: it is null",
    ),
    (
        "t.id = s.id",
        [{"id": 1}],
        lambda b: b.when_matched_update({"region": "concat(s.id, 'x')"}),
        r'lake\.sql\("merge into shop\.orders \.\.\."\)',
    ),
    ("t.id = s.id", [{"id": 1}], lambda b: b.when_matched_delete("source.n = 1"), "condition of when_matched_delete"),
    ("t.id = s.id", [{"id": 7}], lambda b: b.when_not_matched_insert({"amount": 1.0}), "column id is required"),
    ("t.id = s.id", [{"id": 7}], lambda b: b.when_not_matched_insert({"id": "t.id"}), "no column 'target.id'"),
    ("t.amount = s.amount", [{"amount": 70.0}], lambda b: b.when_not_matched_insert_all(), "column id is required"),
    (
        "t.amount = s.amount",
        [{"amount": 70.0, "id": None}],
        lambda b: b.when_not_matched_insert_all(),
        "Column id of shop.orders: it is null.*for the row with amount = 70.0",
    ),
    ("t.id = s.id", [{"id": 1, "amout": 1.0}], lambda b: b.when_not_matched_insert_all(), "'amout'.*Did you mean"),
    ("t.id = s.id", [{"id": 1}, {"id": 1}], _delete, "More than one source row matches"),
    ("t.id <= s.id", [{"id": 1}, {"id": 2}], _delete, "More than one source row matches"),
]


@pytest.mark.sample(14)
@pytest.mark.parametrize(("on", "source", "clauses", "message"), BAD, ids=range(len(BAD)))
def test_bad_merges_are_refused_and_change_nothing(
    orders: Table, on: str, source: Any, clauses: Callable[[Any], Any], message: str
) -> None:
    orders.append(rows(0, 3))
    before = orders.version
    with pytest.raises(InvalidInput, match=message):
        clauses(orders.merge(source, on=on)).execute()
    assert (orders.version, ids(orders)) == (before, [0, 1, 2])


def test_a_merge_never_changes_a_key(lake: Lake) -> None:
    schema = [("id", "long", False), ("name", "string")]
    table = lake.create_table("shop.items", schema, primary_key=["id"])
    table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    other = table.merge([{"id": 7, "name": "a"}], on="t.name = s.name")
    with pytest.raises(InvalidInput, match="would change the key"):
        other.when_matched_update_all().execute()
    with pytest.raises(InvalidInput, match="part of the key"):
        table.merge([{"id": 1}], on="t.id = s.id").when_matched_update({"id": "s.id"}).execute()
    with pytest.raises(InvalidInput, match="has a row of the key 1"):
        table.merge([{"id": 1, "name": "z"}], on="t.name = s.name").when_not_matched_insert_all().execute()
    assert table.merge([{"id": 2, "name": "b"}], on="t.name = s.name").when_matched_update_all().execute().rows_updated


@pytest.mark.parametrize("regions", [{}, {"moulin.regions": "bucket(3, id)"}], ids=["whole", "split"])
def test_a_key_that_a_merge_deletes_may_be_inserted_again(lake: Lake, regions: dict[str, str]) -> None:
    schema = [("id", "long", False), ("name", "string")]
    table = lake.create_table("shop.items", schema, primary_key=["id"], properties=regions)
    table.append([{"id": number, "name": "old"} for number in range(1000)])
    ids_before = {row["id"]: row["_row_id"] for row in table.scan(["id", "_row_id"]).to_pylist()}
    source = [{"id": number, "name": name} for name in ("old", "new") for number in range(0, 1000, 2)]
    merge = table.merge(source, on="t.id = s.id and t.name = s.name")
    done = merge.when_matched_delete().when_not_matched_insert_all().execute()
    assert (done.rows_added, done.rows_deleted, done.rows_updated) == (500, 500, 0)
    assert {row["id"]: row["name"] for row in table.scan().to_pylist()} == {
        number: "old" if number % 2 else "new" for number in range(1000)
    }
    now = {row["id"]: row["_row_id"] for row in table.scan(["id", "_row_id"]).to_pylist()}
    assert {number for number in now if now[number] == ids_before[number]} == set(range(1, 1000, 2))
    assert table.get(4) == {"id": 4, "name": "new"}
    before = table.version
    again = [{"id": 4, "name": "new"}, {"id": 4, "name": "newer"}]
    for clauses in (
        lambda made: made.when_matched_update({"name": "s.name"}).when_not_matched_insert_all(),
        lambda made: made.when_not_matched_insert_all(),
        lambda made: made.when_matched_delete("t.id = 5").when_not_matched_insert_all(),
    ):
        with pytest.raises(InvalidInput, match="has a row of the key 4|more than once"):
            clauses(table.merge(again, on="t.id = s.id and t.name = s.name")).execute()
    assert table.version == before


def test_options_of_a_merge_by_key_do_not_go_with_on(orders: Table) -> None:
    with pytest.raises(InvalidInput, match="remove the options"):
        orders.merge([], on="t.id = s.id", when_matched="delete")  # type: ignore[call-overload]


def test_rows_of_every_region_are_updated_merged_and_inserted(lake: Lake, many_slices: None) -> None:
    schema = [("id", "long", False), ("name", "string", False), ("n", "long")]
    table = lake.create_table(
        "shop.split", schema, primary_key=["name", "id"], properties={"moulin.regions": "identity(name)"}
    )
    table.put_batch([{"id": number, "name": name, "n": number} for name in "ab" for number in range(4)])
    assert table.update({"n": "n * 10"}, where="id > 1").rows_updated == 4
    source = [{"id": 0, "name": "a", "n": -1}, {"id": 3, "name": "b", "n": -2}, {"id": 9, "name": "c", "n": -3}]
    outcome = (
        table.merge(source, on="t.id = s.id and t.name = s.name")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("t.id = 2")
        .execute()
    )
    assert (outcome.rows_updated, outcome.rows_added, outcome.rows_deleted) == (2, 1, 2)
    found = {(row["name"], row["id"]): row["n"] for row in table.scan().to_pylist()}
    assert found == {("a", 0): -1, ("a", 1): 1, ("a", 3): 30, ("b", 0): 0, ("b", 1): 1, ("b", 3): -2, ("c", 9): -3}
    assert table.get(("c", 9)) == {"id": 9, "name": "c", "n": -3}
