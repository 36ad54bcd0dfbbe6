"""Spans as pictures: every span once, in order, however broken the trace; the referees go span by span, in dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from moulin.console.traces.critical_path import critical_path
from moulin.console.traces.service_map import service_map
from moulin.console.traces.spans import OUTLINE, numbers, rows_once
from moulin.console.traces.summary import summarize
from moulin.console.traces.tree import NONE, grow, main_root

Rows = list[dict[str, Any]]
IDS = st.one_of(st.none(), st.sampled_from("abcdef"))
SPANS = st.lists(
    st.builds(
        lambda trace, span, parent, service, start, length, error: {
            "trace_id": trace,
            "span_id": span,
            "parent": parent,
            "service": service,
            "name": "n",
            "kind": "server",
            "error": error,
            "start": start,
            "end": start + length,
        },
        st.sampled_from(["t", "u"]),
        IDS,
        IDS,
        st.sampled_from("xyz"),
        st.integers(0, 40),
        st.integers(0, 20),
        st.booleans(),
    ),
    max_size=14,
)


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=OUTLINE)


def span(name: str, parent: str | None, start: int, end: int, service: str = "x", trace: str = "t") -> dict[str, Any]:
    ids = {"trace_id": trace, "span_id": name, "parent": parent, "service": service}
    return {**ids, "name": "n", "kind": "server", "error": False, "start": start, "end": end}


def drawn(rows: Rows) -> list[str]:
    """Each line of the waterfall: the id of a span behind a dot for each level."""
    forest = grow(table(rows))
    return ["." * int(forest.depth[row]) + str(rows[row]["span_id"]) for row in forest.order.tolist()]


def test_children_follow_their_parent_by_start() -> None:
    rows = [span("d", "b", 15, 20), span("c", "a", 30, 60), span("a", None, 0, 100), span("b", "a", 10, 40)]
    assert drawn(rows) == ["a", ".b", "..d", ".c"]


def test_a_span_whose_parent_is_missing_is_a_root() -> None:
    rows = [span("a", None, 5, 9), span("b", "gone", 1, 2), span("c", "b", 1, 2)]
    assert drawn(rows) == ["b", ".c", "a"]
    assert grow(table(rows)).orphan.tolist() == [False, True, False]


def test_a_cycle_is_cut_at_its_first_span() -> None:
    rows = [
        span("a", "c", 3, 9),
        span("b", "a", 2, 9),
        span("c", "b", 4, 9),
        span("d", "a", 1, 2),
        span("s", "s", 9, 9),
    ]
    assert drawn(rows) == ["b", ".c", "..a", "...d", "s"]
    assert grow(table(rows)).cut.tolist() == [False, True, False, False, True]


@given(SPANS)
@example([])
def test_every_span_is_drawn_once_below_its_parent(rows: Rows) -> None:
    spans = table(rows)
    forest = grow(spans)
    order = forest.order.tolist()
    assert sorted(order) == list(range(len(rows)))
    first: dict[str, int] = {}
    for row, one in enumerate(rows):
        if one["span_id"] is not None:
            first.setdefault(one["span_id"], row)
    path: list[int] = []
    for row in order:
        parent, depth = int(forest.parent[row]), int(forest.depth[row])
        assert depth <= len(path)
        path[depth:] = [row]
        assert parent == (path[depth - 1] if depth else NONE), "it lies below the span that is its parent"
        wanted = first.get(rows[row]["parent"], NONE)
        assert parent == wanted or (parent == NONE and forest.cut[row])
        assert forest.orphan[row] == (rows[row]["parent"] is not None and wanted == NONE)
    for row in np.flatnonzero(forest.cut).tolist():
        seen, at = [row], first[rows[row]["parent"]]
        while at != row:  # its parents lead back to it
            seen.append(at)
            assert len(seen) <= len(rows)
            at = first[rows[at]["parent"]]
        assert rows[row]["start"] == min(rows[one]["start"] for one in seen)
    siblings = defaultdict(list)
    for row in order:
        siblings[int(forest.parent[row])].append(rows[row]["start"])
    assert all(starts == sorted(starts) for starts in siblings.values())


def waited_for(rows: Rows, forest: Any, root: int, low: int, high: int) -> dict[int, int]:
    """For each moment, the span that the root waited for: a walk backwards, a moment at a time."""
    answer = {}
    moment = high
    children = [row for row in range(len(rows)) if int(forest.parent[row]) == root]
    clipped = {row: (max(low, rows[row]["start"]), min(high, rows[row]["end"])) for row in children}
    while moment > low:
        done = [(end, -start, row) for row, (start, end) in clipped.items() if start < end <= moment]
        if done and max(done)[0] == moment:
            best = max(done)
            row = min(one[2] for one in done if one[:2] == best[:2])
            answer.update(waited_for(rows, forest, row, *clipped.pop(row)))
            moment = -best[1]
        else:
            moment -= 1
            answer[moment] = root
    return answer


@given(SPANS)
@example([])
def test_each_moment_of_a_trace_waits_for_one_span(rows: Rows) -> None:
    spans = table(rows)
    forest, start, end = grow(spans), numbers(spans, "start"), numbers(spans, "end")
    path = critical_path(forest, start, end)
    assert (path.start[1:] == path.end[:-1]).all(), "without a gap"
    if not rows:
        assert len(path.row) == 0
        return
    root = main_root(forest, start, end)
    found = {at: row for row, *part in zip(*path, strict=True) for at in range(*part)}
    expected = waited_for(rows, forest, root, int(start[root]), int(end[root]))
    assert found.keys() == expected.keys()
    same = [
        found[at] == expected[at] or rows[found[at]] | {"span_id": ""} == rows[expected[at]] | {"span_id": ""}
        for at in found
    ]
    assert all(same)


@given(SPANS)
def test_summaries_and_calls_are_what_counting_span_by_span_finds(rows: Rows) -> None:
    spans = table(rows)
    unique = [dict(one) for one in dict.fromkeys(tuple(row.items()) for row in rows)]
    assert [rows[row] for row in rows_once(spans).tolist()] == unique
    summaries = summarize(spans)
    assert summaries.keys() == {one["trace_id"] for one in unique}
    for trace, summary in summaries.items():
        mine = [one for one in unique if one["trace_id"] == trace]
        assert (summary.start, summary.end) == (min(x["start"] for x in mine), max(x["end"] for x in mine))
        assert (summary.spans, summary.errors) == (len(mine), sum(x["error"] for x in mine))
        assert summary.rooted == any(x["parent"] is None for x in mine)
        counts = Counter(x["service"] for x in mine)
        assert [(x.service, x.spans) for x in summary.services] == sorted(counts.items())
    keyed: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in rows:
        keyed.setdefault((one["trace_id"], one["span_id"], one["parent"], one["service"]), one)
    owners: dict[tuple[str, str], str] = {}
    for one in keyed.values():
        if one["span_id"] is not None:
            owners.setdefault((one["trace_id"], one["span_id"]), one["service"])
    calls: Counter[tuple[str, str]] = Counter()
    for one in keyed.values():
        owner = owners.get((one["trace_id"], one["parent"]))
        if owner is not None and owner != one["service"]:
            calls[owner, one["service"]] += 1
    found = service_map(spans)
    assert {(x.parent, x.child): x.calls for x in found.calls} == calls
    assert sum(x.spans for x in found.services) == len(keyed)


def test_a_deep_and_a_wide_trace_are_drawn() -> None:
    count = 20_000
    deep = [span(f"{n:x}", f"{n - 1:x}" if n else None, n, 2 * count - n) for n in range(count)]
    wide = [span(f"{n:x}", "0" if n else None, n, n + 1 if n else count) for n in range(count)]
    for rows, depth in ((deep, count - 1), (wide, 1)):
        spans = table(rows)
        forest = grow(spans)
        assert forest.order.tolist() == list(range(count))
        assert int(forest.depth.max()) == depth
        path = critical_path(forest, numbers(spans, "start"), numbers(spans, "end"))
        assert int(path.end[-1] - path.start[0]) == rows[0]["end"]
