"""The rules of a merge: parsed once, sent to tasks as they are."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from moulin.errors import InvalidInput
from moulin.model.merge_rules import MergeRules
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema

SCHEMA = make_schema(
    [("id", "long"), ("amount", "decimal(10, 2)"), ("note", "string"), ("share", "double")], primary_key=["id"]
)
SOURCE = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(10, 2)), ("extra", pa.string())])


def rules() -> MergeRules:
    return MergeRules.of(
        SCHEMA,
        SOURCE,
        "update",
        {"amount": "source.amount + target.amount", "note": "upper(source.extra)", "share": "0.5"},
        "source.amount > target.amount or target.amount is null",
        "insert",
        "source.extra = 'gone'",
        {"amount": "source.amount * 2", "note": "'new'"},
        "source.id / 2 <> 1",
    )


def test_rules_that_were_sent_to_a_task_do_the_same() -> None:
    source = pa.Table.from_pylist(
        [
            {"id": 1, "amount": Decimal(5), "extra": "a"},
            {"id": 2, "amount": None, "extra": "gone"},
            {"id": 3, "amount": Decimal(9), "extra": None},
        ],
        SOURCE,
    )
    target = pa.Table.from_pylist(
        [{"id": 1, "amount": Decimal(4)}, {"id": 2, "amount": Decimal(1)}, {"id": 3, "amount": None}],
        arrow_schema(SCHEMA),
    )
    first = rules()
    sent: MergeRules = pickle.loads(pickle.dumps(first))
    for one in (first, sent):
        seen = target.select(list(one.target_columns))
        assert one.target_columns == ("amount",)
        assert one.choose(source, seen).to_pylist() == [True, False, True]  # type: ignore[union-attr]
        assert one.doomed(source, seen).to_pylist() == [False, True, False]  # type: ignore[union-attr]
        assert one.insertable(source).to_pylist() == [True, False, True]  # type: ignore[union-attr]
        assert one.updated(source, seen).column("note").to_pylist() == ["A", "GONE", None]
        assert one.inserted(source).column("note").to_pylist() == ["new"] * 3
    assert sent.updated(source, target.select(["amount"])).equals(first.updated(source, target.select(["amount"])))
    assert sent.inserted(source).equals(first.inserted(source))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"when_matched_if": "source.nothing = 1"}, "when_matched_if: There is no column 'source.nothing'"),
        ({"when_matched_set": {"note": "target.x"}}, "when_matched_set of note: There is no column 'target.x'"),
        ({"when_matched_set": {"nope": "1"}}, "when_matched_set names 'nope', which is not a column."),
        ({"when_not_matched_if": "target.id = 1"}, "when_not_matched_if: There is no column 'target.id'"),
        ({"when_not_matched_set": {"id": "1"}}, "when_not_matched_set cannot change id: it is part of the key."),
        (
            {"when_matched_set": {"amount": "'x'", "note": "source.extra"}},
            "when_matched_set of amount: 'x' is not a value of type",
        ),
        ({}, "The source has a column 'extra' that the table lacks and no expression uses."),
    ],
)
def test_a_mistake_is_refused_before_any_task_starts(changed: dict[str, object], said: str) -> None:
    given = {"when_matched_set": None, "when_matched_if": None, "when_not_matched": "insert", **changed}
    with pytest.raises(InvalidInput) as refused:
        MergeRules.of(SCHEMA, SOURCE, "update", **given)  # type: ignore[arg-type]
    assert refused.value.message.startswith(said)
