from __future__ import annotations

import pytest

from moulin.errors import InvalidInput
from moulin.model.names import check_column_name, check_name, did_you_mean, parse_table_name, quote


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("shop.orders", ("shop", "orders")),
        ("Shop.Orders", ("Shop", "Orders")),
        ("été.table à moi", ("été", "table à moi")),
    ],
)
def test_two_part_names_keep_their_case(text: str, parts: tuple[str, str]) -> None:
    assert parse_table_name(text) == parts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders", "has 1 parts"),
        ("a.b.c", "has 3 parts"),
        (".orders", "must not be blank"),
        ("shop. ", "must not be blank"),
        ("shop. orders", "begins or ends with a space"),
        ("shop.or/ders", "contains '/'"),
        ("shop.or`ders", "contains '`'"),
        ("shop.or\nders", "control"),
        ("shop.or\u200bders", "invisible"),
        ("shop.\ud800", "control or invisible"),
        ("shop._moulin_x", "reserved"),
        ("_Moulin.x", "reserved"),
        (f"shop.{'x' * 256}", "at most 255"),
        (None, "not by NoneType"),
    ],
)
def test_impossible_names_are_refused(text: object, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_table_name(text)


def test_the_longest_name_is_allowed() -> None:
    assert check_name("x" * 255, "database") == "x" * 255


@pytest.mark.parametrize(
    "name", ["_row_id", "_ROW_ID", "_last_updated_version", "_moulin_segment", "_version", "a.b", "", 7]
)
def test_impossible_column_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidInput):
        check_column_name(name)


def test_columns_may_have_names_that_tables_may_not() -> None:
    assert check_column_name("km/h ") == "km/h "


def test_quoting_leaves_no_way_out_of_the_quotes() -> None:
    assert quote("shop", "orders") == "`shop`.`orders`"
    assert quote("a` or `b") == "`a`` or ``b`"


def test_did_you_mean_ignores_case_and_gives_up_on_strangers() -> None:
    assert did_you_mean("REGOIN", ["region", "amount"]) == " Did you mean 'region'?"
    assert did_you_mean("zzz", ["region", "amount"]) == ""
