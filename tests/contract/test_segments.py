"""Segments and spans: what is live at a version, by partition and by time, with which deletion vector."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moulin.catalog.catalog import Catalog
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.operations import Append, Compact, Delete, Expected, Overwrite
from tests.contract.samples import commit, live, make_table, segment, vector


def numbers(catalog: Catalog, table_id: object, version: int, **filters: object) -> list[int]:
    found = catalog.segments(table_id, version, **filters)  # type: ignore[arg-type]
    return [s.facts.number for s in found]


def test_facts_come_back_as_they_were_given(catalog: Catalog) -> None:
    state = make_table(catalog, partition_by=["region", "bucket(4, id)"])
    plain = segment(catalog, state.id, partition=(None, b"\2\0\0\0"), time_min=-5, time_max=7)
    rich = segment(
        catalog,
        state.id,
        rows=3,
        level=2,
        partition=(b"", b"\0\0\0\0"),
        columns=(ColumnFacts(1, 3, 1, 0, 24, bytes(8), None), ColumnFacts(3, 3, 0, None, 9, None, b"z")),
        has_lineage=True,
        seq_min=1,
        seq_max=1,
        key_min=b"a",
        key_max=b"zz",
        sort_order_id=1,
        split_offsets=(),
    )
    version = commit(catalog, state.id, Append(added=(plain, rich))).version
    found = catalog.segments(state.id, version)
    assert [s.facts for s in found] == [plain, rich]
    assert [(s.first_row_id, s.sequence, s.added_version, s.vector) for s in found] == [
        (0, 1, version, None),
        (10, 1, version, None),
    ]
    bare = catalog.segments(state.id, version, with_columns=False)
    assert [s.facts for s in bare] == [replace(f, columns=(), split_offsets=()) for f in (plain, rich)]
    some = catalog.segments(state.id, version, columns={3})
    assert [s.facts.columns for s in some] == [(), rich.columns[1:]]
    assert catalog.segments_by_number(state.id, [rich.number, 10**12], version) == {rich.number: found[1]}


def test_versions_see_what_was_live_then(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b, c = (segment(catalog, state.id, rows=rows) for rows in (10, 20, 30))
    added = commit(catalog, state.id, Append(added=(a, b))).version
    deleted = commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 3),))).version
    merged = commit(
        catalog,
        state.id,
        Compact(removed=(Expected(a.number, live_vector(catalog, state.id, a)), Expected(b.number, 0)), added=(c,)),
    ).version
    emptied = commit(catalog, state.id, Overwrite(everything=True)).version
    assert live(catalog, state.id, state.version) == {}
    assert live(catalog, state.id, added) == {a.number: 10, b.number: 20}
    assert live(catalog, state.id, deleted) == {a.number: 7, b.number: 20}
    assert live(catalog, state.id, merged) == {c.number: 30}
    assert live(catalog, state.id, emptied) == {}
    assert [catalog.count_rows(state.id, v) for v in (added, deleted, merged, emptied)] == [30, 27, 30, 0]
    by_number = catalog.segments_by_number(state.id, [a.number, b.number, c.number], deleted)
    assert {number: s.live_rows for number, s in by_number.items()} == {a.number: 7, b.number: 20}


def live_vector(catalog: Catalog, table_id: UUID, facts: SegmentFacts) -> int:
    found = catalog.segments_by_number(table_id, [facts.number], catalog.version())[facts.number].vector
    return found.id if found else 0


def test_the_entry_counts_what_is_live(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b = segment(catalog, state.id, rows=10), segment(catalog, state.id, rows=20)
    commit(catalog, state.id, Append(added=(a, b)))
    commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 3),)))
    entry = catalog.table_entry(state.id)
    assert (entry.segments, entry.rows, entry.bytes) == (2, 27, 3000)
    commit(catalog, state.id, Delete(removed=(Expected(b.number, 0),)))
    entry = catalog.table_entry(state.id)
    assert (entry.segments, entry.rows, entry.bytes) == (1, 7, 1000)
    assert entry == catalog.tables("d")[0]


def test_deletion_vectors_follow_one_another(catalog: Catalog) -> None:
    state = make_table(catalog)
    a = segment(catalog, state.id, rows=10)
    commit(catalog, state.id, Append(added=(a,)))
    first, seen = vector(state.id, a.number, 2), []
    commit(catalog, state.id, Delete(vectors=(first,)))
    seen.append(live_vector(catalog, state.id, a))
    second = vector(state.id, a.number, 9, seen[0])
    version = commit(catalog, state.id, Delete(vectors=(second,))).version
    seen.append(live_vector(catalog, state.id, a))
    assert seen[0] != seen[1]
    stored = catalog.segments(state.id, version)[0].vector
    assert stored == replace(second.facts, id=seen[1])
    assert catalog.segments(state.id, version - 1)[0].vector == replace(first.facts, id=seen[0])


def test_added_segments_may_come_with_deleted_rows(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b = segment(catalog, state.id, rows=10), segment(catalog, state.id, rows=8)
    commit(catalog, state.id, Append(added=(a,)))
    carried = vector(state.id, b.number, 3).facts
    version = commit(
        catalog, state.id, Compact(removed=(Expected(a.number, 0),), added=(b,), added_vectors={b.number: carried})
    ).version
    assert live(catalog, state.id, version) == {b.number: 5}
    assert catalog.count_rows(state.id, version) == catalog.table_entry(state.id).rows == 5


def test_partitions_are_asked_once_each(catalog: Catalog) -> None:
    state = make_table(catalog, partition_by=["region"])
    made = {
        region: [segment(catalog, state.id, partition=(region,)) for _ in range(2)] for region in (b"eu", b"us", None)
    }
    version = commit(catalog, state.id, Append(added=tuple(s for some in made.values() for s in some))).version
    asked = []

    def wanted(spec_id: int, values: tuple[bytes | None, ...]) -> bool:
        asked.append((spec_id, values))
        return values[0] != b"us"

    found = numbers(catalog, state.id, version, partition_filter=wanted)
    assert found == sorted(s.number for region in (b"eu", None) for s in made[region])
    assert sorted(asked, key=str) == sorted([(0, (b"eu",)), (0, (b"us",)), (0, (None,))], key=str)
    assert numbers(catalog, state.id, version, partition_filter=lambda spec_id, values: False) == []
    assert len(numbers(catalog, state.id, version, partition_filter=lambda spec_id, values: True)) == 6


def test_filters_over_more_partitions_than_fit_one_statement_find_all(catalog: Catalog) -> None:
    """More than fit into one statement, and more than it is worth to ask about when a time range leaves few."""
    state = make_table(catalog, partition_by=["id"])
    first = catalog.reserve_segments(1200)
    made = [
        segment(catalog, state.id, number=first + n, partition=(n.to_bytes(8, "little"),), time_min=n, time_max=n)
        for n in range(1200)
    ]
    version = commit(catalog, state.id, Append(added=tuple(made))).version

    def odd(spec_id: int, values: tuple[bytes | None, ...]) -> bool:
        return bool(values[0] and values[0][0] & 1)

    found = catalog.segments(state.id, version, partition_filter=odd)
    assert [s.facts for s in found] == made[1::2]
    asked: list[object] = []

    def odd_and_noted(spec_id: int, values: tuple[bytes | None, ...]) -> bool:
        asked.append(values)
        return odd(spec_id, values)

    both = catalog.segments(state.id, version, partition_filter=odd_and_noted, time_range=(100, 201))
    assert [s.facts for s in both] == made[101:202:2]
    assert len(asked) == 102
    assert [s.facts for s in catalog.segments(state.id, version, partition_filter=odd, time_range=(100, None))] == (
        made[101::2]
    )
    assert len(catalog.segments_by_number(state.id, [s.number for s in made], version)) == 1200


Spans = list[tuple[int, int] | None]
Queries = list[tuple[int | None, int | None]]


@st.composite
def timelines(draw: st.DrawFn) -> tuple[Spans, Queries]:
    """Spans and queries of one scale, so that they do overlap: nanoseconds, days, centuries, all of 64 bits."""
    scale = draw(st.sampled_from([1, 86_400 * 10**9, 2**57]))
    instants = st.integers(-63, 63).map(lambda n: n * scale)
    if draw(st.booleans()):
        instants |= st.sampled_from([-(2**63), 2**63 - 1, -1, 2**62, -(2**62)])
    ranges = st.none() | st.tuples(instants, instants).map(lambda pair: (min(pair), max(pair)))
    bounds = st.none() | instants
    queries = st.lists(st.tuples(bounds, bounds), min_size=1, max_size=8)
    return draw(st.lists(ranges, max_size=12)), draw(queries)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(timelines())
@example(([(0, 3), (0, 4), (-7, 8), (5, 5)], [(3, None), (4, 4), (8, 9), (5, 5), (-9, -7)]))  # the ends of classes
def test_time_ranges_find_what_overlaps(catalog: Catalog, timeline: tuple[Spans, Queries]) -> None:
    """Against a plain list: points, long spans, negative times, the ends of the scale, segments without times."""
    spans, queries = timeline
    state = make_table(catalog, f"t{catalog.version()}")
    first = catalog.reserve_segments(len(spans) + 1)
    made = [
        segment(
            catalog,
            state.id,
            number=first + place,
            time_min=span[0] if span else None,
            time_max=span[1] if span else None,
        )
        for place, span in enumerate(spans)
    ]
    version = commit(catalog, state.id, Append(added=tuple(made))).version
    for low, high in queries:
        expected = [
            s.number
            for s in made
            if (low is None and high is None)
            or (
                s.time_min is not None
                and s.time_max is not None
                and (high is None or s.time_min <= high)
                and (low is None or s.time_max >= low)
            )
        ]
        assert numbers(catalog, state.id, version, time_range=(low, high)) == expected


def test_time_ranges_beyond_64_bits_are_answered(catalog: Catalog) -> None:
    state = make_table(catalog)
    a = segment(catalog, state.id, time_min=1, time_max=2)
    version = commit(catalog, state.id, Append(added=(a,))).version
    assert numbers(catalog, state.id, version, time_range=(-(10**30), 10**30)) == [a.number]
    assert numbers(catalog, state.id, version, time_range=(10**30, None)) == []


def test_time_ranges_look_at_the_version_asked_for(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b = segment(catalog, state.id, time_min=1, time_max=5), segment(catalog, state.id, time_min=4, time_max=900)
    first = commit(catalog, state.id, Append(added=(a,))).version
    second = commit(catalog, state.id, Compact(removed=(Expected(a.number, 0),), added=(b,))).version
    assert numbers(catalog, state.id, first, time_range=(5, 5)) == [a.number]
    assert numbers(catalog, state.id, second, time_range=(5, 5)) == [b.number]


def test_segment_numbers_are_never_handed_out_twice(catalog: Catalog) -> None:
    blocks = [(catalog.reserve_segments(count), count) for count in (1, 10, 3)]
    taken = [first + n for first, count in blocks for n in range(count)]
    assert len(set(taken)) == 14
    with pytest.raises(ValueError, match="at least one"):
        catalog.reserve_segments(0)
