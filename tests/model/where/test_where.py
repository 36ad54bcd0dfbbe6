"""The text of a `where`: what it takes, what it means, and how it is refused."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from moulin.errors import InvalidInput
from moulin.model.facts import ColumnFacts
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from moulin.model.where import parse_where

SCHEMA = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "big", LongType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "amount", DoubleType()),
    NestedField(5, "rate", FloatType()),
    NestedField(6, "paid", BooleanType()),
    NestedField(7, "day", DateType()),
    NestedField(8, "ts", TimestampType()),
    NestedField(9, "tz", TimestamptzType()),
    NestedField(10, "price", DecimalType(9, 2)),
    NestedField(11, "key", UUIDType()),
    NestedField(12, "raw", BinaryType()),
    NestedField(13, "code", FixedType(2)),
    NestedField(14, "at", TimeType()),
    NestedField(15, "two words", IntegerType()),
    NestedField(16, "home", StructType(NestedField(17, "city", StringType()), NestedField(18, "date", DateType()))),
    NestedField(19, "tags", ListType(20, StringType())),
    NestedField(21, "date", DateType()),
    NestedField(22, "labels", MapType(23, StringType(), 24, StringType())),
    NestedField(25, "counts", MapType(26, StringType(), 27, IntegerType())),
)
ROW = {
    "id": 5,
    "big": 2**62,
    "name": "it's 100%",
    "amount": 0.1,
    "rate": 0.1,
    "paid": True,
    "day": 19782,  # 2024-02-29
    "ts": 19782 * 86_400_000_000 + 1,
    "tz": 19782 * 86_400_000_000,
    "price": Decimal("12.50"),
    "key": bytes(15) + b"\x0a",
    "raw": b"\x00\xff",
    "code": b"ab",
    "at": 45_000_000_000,  # 12:30
    "two words": 2,
    "home": {"city": "Oslo", "date": 0},
    "tags": ["x"],
    "date": 0,
    "labels": [("http.route", "/cart"), ("", "it's")],
    "counts": [("a", 1)],
}
(BATCH,) = pa.Table.from_pylist([ROW, dict.fromkeys(ROW)], schema=arrow_schema(SCHEMA)).to_batches()


def matches(where: str) -> bool:
    """Whether the row matches; the row of nulls that follows it must not."""
    row, nulls = parse_where(where, SCHEMA).mask(BATCH).to_pylist()
    assert not nulls, "nothing is true of null"
    return bool(row)


@pytest.mark.parametrize(
    "where",
    [
        "id = 5",
        "id == 5 AND 5 = id",
        "ID <> 4",
        "id != 4 and not id != 5",
        "id > -5 and - - 5 <= id",
        "id = '5' and id = 5.0 and id = 50e-1",
        "id < 1e30 and id > -99999999999999999999",
        "id > 4.5 and id < 5.5 and id <> 4.5",
        "big = 4611686018427387904 and big > 4611686018427387903",
        "id in (1, 5) and id not in (1, 2.5, 99999999999)",
        "id between 5 and 5 and id not between 6 and 7",
        '`id` = 5 and "id" = 5 and `two words` = 2 and "two words" = 2',
        "name = 'it''s 100%'",
        "name like 'it''s%' and name like '%100\\%' and name like '%100!%' escape '!' and name like 'it_s 100_'",
        "name not like 'its%' and name ilike 'IT%' and not name ilike 'x%'",
        "amount = 0.1 and amount < cast('infinity' as double) and amount < 'NaN' and not isnan(amount)",
        "rate = cast(0.1 as float) and rate <> 0.1 and rate > 0.1",
        "paid and paid = true and paid is true and paid is not false and paid = 'true'",
        "not (not paid)",
        "day = '2024-02-29' and day = date '2024-02-29' and day = cast('2024-02-29' as date)",
        "day = '2024-02-29'::date and day <= '9999-12-31'",
        "day > '2024-02-28' and day < timestamp '2024-02-29 00:00:01'",
        "ts > '2024-02-29' and ts > day and ts = timestamp '2024-02-29 00:00:00.000001'",
        "ts > timestamp '2024-02-29T00:00' and ts < '2024-02-29 00:00:00.000001001'",
        "tz = '2024-02-29T00:00:00Z' and tz = timestamptz '2024-02-29 01:30:00+01:30' and tz = '2024-02-29'",
        "tz = timestamp with time zone '2024-02-28 19:00:00-05' and tz in ('2024-02-29 00:00:00 UTC')",
        "price = 12.5 and price = '12.50' and price > 12.499 and price <> 12.501",
        "price = cast(12.5 as decimal(9, 2)) and price in (12.505, 12.5)",
        "key = '00000000-0000-0000-0000-00000000000a' and key = x'0000000000000000000000000000000A'",
        "raw = x'00ff' and raw = X'00FF' and raw > x'00' and code = x'6162'",
        "at = '12:30' and at >= time '12:30:00' and at < '12:30:00.0000001'",
        "home.city = 'Oslo' and Home.City like 'O%' and home.`date` = '1970-01-01' and date = '1970-01-01'",
        "id + 1 = 6 and id * 2 - 1 = 9 and -id = -5 and abs(-id) = 5 and id / 2 = 2.5 and 60 * 60 > id",
        "price * 2 = 25 and price + 0.5 = 13.0 and price - id = 7.5 and amount + id > 5.05",
        "lower(name) = 'it''s 100%' and upper(home.city) = 'OSLO' and lower(home.city) like 'os%'",
        "id < big and price > id and amount < rate and home.city < name and id <=> 5",
        "id is distinct from big and id is not distinct from 5",
        "(id = 5 or id / 0 = 1) and 1 = 1 and 'a' < 'b' and true -- a comment",
        "labels['http.route'] = '/cart' and labels['http.route'] like '/c%' and Labels[''] = 'it''s'",
        "labels['http.route'] in ('/x', '/cart') and upper(labels['http.route']) = '/CART' and labels['x'] is null",
        "(id = 5) is true and (id = 6) is false and (id = null) is null and id is not null and tags is not null",
    ],
)
def test_a_true_condition_matches_the_row(where: str) -> None:
    assert matches(where)


@pytest.mark.parametrize(
    "where",
    [
        "id = 4.5",
        "id = null",
        "id not in (1, null)",
        "not (id = null)",
        "id / 0 = 1",
        "id / 0 <> 1",
        "big + 0 < 0",
        "amount > 'NaN'",
        "name like 'it'",
        "false or 1 = 2",
        "null",
        "name = 'IT''S 100%'",
        "labels['x'] = '/cart'",
        "not labels['x'] = '/cart'",
        "labels['HTTP.route'] = '/cart'",
        "price = 12.505",
    ],
)
def test_a_condition_that_is_not_true_does_not_match_the_row(where: str) -> None:
    assert not matches(where)


@pytest.mark.parametrize(
    "where", ["id is null", "isnan(amount) is false", "not isnan(amount)", "id <=> null", "(id = 1) is not true"]
)
def test_conditions_that_null_satisfies_match_nulls(where: str) -> None:
    assert parse_where(where, SCHEMA).mask(BATCH).to_pylist()[1] is True


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "The where is empty"),
        (" \n ", "The where is empty"),
        ("-- nothing", "one condition"),
        ("amount > 'abc'", "Column amount has type double and cannot be compared with 'abc'"),
        ("name = 5", "Column name has type string and cannot be compared with 5; write text in single quotes"),
        ("paid = 1", "Column paid has type boolean"),
        ("day = '2024-02-30'", "Column day has type date and cannot be compared with '2024-02-30'"),
        ("day = '2024-02-29 10:00:00'", "Column day has type date"),
        ("ts = '2024-02-29T00:00:00Z'", "without time zone"),
        ("key = 'zz'", "Column key has type uuid"),
        ("raw = 'ab'", "write bytes such as x'00ff'"),
        ("code = x'00'", "Column code has type fixed[2]"),
        ("raw = x'0'", "two hex digits"),
        ("id in (1, 'x')", "Column id has type int and cannot be compared with 'x'"),
        ("id between 1 and true", "Column id has type int"),
        ("amuont > 1", "There is no column 'amuont'. Did you mean 'amount'?"),
        ("home.town = 'x'", "There is no column 'home.town'"),
        ("shop.orders.id = 1", "There is no column 'shop.orders.id'"),
        ("home = 'x'", "Column home is of type struct"),
        ("tags = 'x'", "Column tags is of type list"),
        ("id", "column id is of type int: compare it"),
        ("5", "a value stands alone"),
        ("id = ", "line 1, column 4, near '='"),
        ("id =\n  1 )", "line 2, column 5, near ')'"),
        ("(id = 1", "expecting )"),
        ("id = 'x", "not closed"),
        ("id = 1; id = 2", "one condition"),
        ("id := 1", "near ':='"),
        ("delete from t", "near 'from'"),
        ("select 1", "near 'select'"),
        ("id in (select 1)", "A where cannot use sub-queries; use lake.sql for that."),
        ("exists (select 1)", "sub-queries"),
        ("id = (select max(id) from t)", "sub-queries"),
        ("sum(id) > 1", "the aggregate sum"),
        ("coalesce(id, 1) = 1", "the function coalesce"),
        ("my_own(id) = 1", "the function my_own"),
        ("cast(id as string) = '1'", "a cast of anything but a literal"),
        ("cast('x' as int) = id", "'x' is not exactly a value of type int"),
        ("id between symmetric 1 and 2", "`symmetric`"),
        ("id in ()", "list after `in` is empty"),
        ("(id, big) in ((1, 2))", "`tuple`"),
        ("name like id", "pattern of a like is text"),
        ("name like 'a\\b'", "escape"),
        ("id like 'a%'", "like needs text, and column id is of type int"),
        ("name + 1 = 2", "The operator + needs numbers, but got column name (text)"),
        ("lower(id) = 'x'", "lower needs text"),
        ("isnan(id)", "isnan needs a column of type float or double"),
        ("id = name", "cannot be compared with column name (text)"),
        ("ts = tz", "cannot be compared with column tz"),
        ("'a' = 1", "cannot be compared"),
        ("labels[1] = 'x'", "one text in single quotes"),
        ("labels['a', 'b'] = 'x'", "one text in single quotes"),
        ("labels[name] = 'x'", "one text in single quotes"),
        ("name['x'] = 'x'", "needs a column of maps, and column name is of type string"),
        ("labels['a']['b'] = 'x'", "needs a column of maps, and no column was given"),
        ("counts['a'] = 1", "only on maps of strings"),
        ("id = ?", "`placeholder`"),
        ("*", "cannot use"),
        ("id = 1e99999999999999999999999999", "cannot be read"),
        ("name = '\ud800'", "surrogate"),
        ("key + key = key", "The operator + needs numbers"),
        (
            "price * price * price * price * price * price * price * price * price > 1",
            "cannot be evaluated on this table",
        ),
    ],
)
def test_a_wrong_condition_is_refused_with_one_sentence(where: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as refused:
        parse_where(where, SCHEMA)
    message = refused.value.message
    assert "\x1b" not in message
    assert message.endswith((".", "?"))
    assert "\n" not in message


def test_only_text_and_arrow_expressions_are_taken() -> None:
    with pytest.raises(InvalidInput, match="not int"):
        parse_where(5, SCHEMA)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (pc.field("amuont") > 1, "There is no column 'amuont'. Did you mean 'amount'?"),
        (pc.field("id") + 1, "cannot be evaluated on this table"),
        (pc.field("name") > 1, "cannot be evaluated on this table"),
        (pc.field("home", "town") == "x", "cannot be evaluated on this table"),
    ],
)
def test_arrow_expressions_that_do_not_fit_are_refused(expression: pc.Expression, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        parse_where(expression, SCHEMA)


def test_overflow_is_said_when_it_happens() -> None:
    predicate = parse_where("big * 4 > 1", SCHEMA)
    with pytest.raises(InvalidInput, match="overflow"):
        predicate.mask(BATCH)


def test_numbers_far_from_any_type_cost_nothing() -> None:
    assert parse_where("id = 1e999999999 or id > 1e99999 * 1e99999", SCHEMA).is_false
    assert matches("id > -1e-999999999 and price < 1e999999999")
    with pytest.raises(InvalidInput, match="too large a number"):
        parse_where("id > 1e999999 * 1e999999", SCHEMA)


@pytest.mark.parametrize(
    "where",
    [
        "(" * 5000 + "id = 1" + ")" * 5000,
        "not " * 5000 + "paid",
        "id = " + "- " * 5000 + "1",
        "id = 1" + " + 1" * 5000,
        "abs(" * 5000 + "id" + ")" * 5000 + " = 1",
        "case when " * 5000 + "paid" + " then 1 end" * 5000 + " = 1",
        "(select " * 5000,
        "id in (" * 5000,
    ],
)
def test_deep_nesting_is_refused(where: str) -> None:
    with pytest.raises(InvalidInput, match=r"deeply|cannot"):
        parse_where(where, SCHEMA)


def test_sensible_nesting_is_taken() -> None:
    assert matches("(" * 25 + "id = 5" + ")" * 25)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (f"id in ({', '.join(map(str, range(10_000)))})", True),
        (f"id not in ({', '.join(map(str, range(10_000)))})", False),
        (" or ".join(f"id = {at}" for at in range(3000)), True),
        (" and ".join(f"id <> {at} and big <> {at}" for at in range(2000)), False),
        (" or ".join(f"(id = {at} and big > {at})" for at in range(2000)), True),
        (" or ".join(f"id + 0 = {at}" for at in range(1000)), True),
    ],
)
def test_long_conditions_work(where: str, expected: bool) -> None:
    assert matches(where) is expected


def test_long_lists_prune() -> None:
    wide: Predicate = parse_where(f"id in ({', '.join(str(2 * at) for at in range(10_000))})", SCHEMA)

    def facts(low: int, high: int) -> dict[int, ColumnFacts]:
        return {1: ColumnFacts(1, 1, 0, None, 0, low.to_bytes(4, "little"), high.to_bytes(4, "little"))}

    assert not wide.may_match(facts(7, 7), 1)
    assert wide.may_match(facts(7, 8), 1)
    assert wide.must_match(facts(8, 8), 1)
    assert not wide.may_match(facts(20_000, 30_000), 1)


def test_the_columns_of_a_condition_are_those_it_reads() -> None:
    assert parse_where("home.city = 'x' and (big < id or name is null)", SCHEMA).columns == (
        "id",
        "big",
        "name",
        "home",
    )


def test_names_that_differ_in_case_are_told_apart() -> None:
    schema = Schema(
        NestedField(1, "a", IntegerType()), NestedField(2, "A", IntegerType()), NestedField(3, "Bc", IntegerType())
    )
    assert parse_where("A = 1", schema).columns == ("A",)
    assert parse_where("a = 1 and BC = 2", schema).columns == ("a", "Bc")


@pytest.mark.parametrize("words", ["struct(", "float(", "array[", "dec(1, ", "map(", "uuid("])
def test_types_in_one_another_are_refused_before_they_are_read(words: str) -> None:
    """Each level doubled the time: 22 of them took a minute, in the server for whoever may read."""
    closing = "]" if words.endswith("[") else ")"
    with pytest.raises(InvalidInput, match="in one another"):
        parse_where(f"id = {words * 30}1{closing * 30}", make_schema([("id", "long")]))
