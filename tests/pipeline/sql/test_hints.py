"""What a query says of a column for sure, as a predicate. Referee: the same words as a `where`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.model.schema.schema import make_schema
from moulin.model.where import parse_where
from moulin.pipeline.sql.hints import Known, predicate_of

SCHEMA = make_schema([("id", "int"), ("Big", "long"), ("name", "string"), ("at", "timestamp"), ("price", "double")])

_numbers = st.integers(-(2**65), 2**65) | st.sampled_from([0, 2**31, -(2**63) - 1])
_texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["", "it's", "a\\b", "\0", "1", "null"])
_known = st.builds(
    Known,
    st.sampled_from(["id", "ID", "big", "name", "at", "price", "none"]),
    st.lists(_numbers, min_size=1, max_size=4).map(tuple) | st.lists(_texts, min_size=1, max_size=4).map(tuple),
)


def _where(known: Known) -> str | None:
    types = {"id": int, "big": int, "name": str}
    if types.get(known.column.lower()) is not type(known.values[0]):
        return None
    values = [str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'" for value in known.values]
    return f"{known.column} in ({', '.join(values)})"


@settings(max_examples=300, deadline=None)
@given(st.lists(_known, max_size=3))
def test_hints_are_what_the_same_where_is(known: list[Known]) -> None:
    texts = [text for one in known if (text := _where(one)) is not None]
    expected = parse_where(" and ".join(texts) or None, SCHEMA)
    assert predicate_of(known, SCHEMA).condition == expected.condition


def test_half_of_a_character_rules_nothing_out() -> None:
    """Spark's text may hold one; no row of the lake does, but that is for Spark to see."""
    assert predicate_of([Known("name", ("\ud800",)), Known("id", (1,))], SCHEMA).is_true


def test_a_name_that_cannot_be_told_from_two_parts_rules_nothing_out() -> None:
    schema = make_schema([("a, b", "int"), ("id", "int")])
    assert predicate_of([Known("id", (1,))], schema).is_true
