from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.model.names import (
    check_column_name,
    check_name,
    check_new_name,
    did_you_mean,
    full_name,
    matches_pattern,
    parent_names,
    parse_table_name,
    quote,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("shop.orders", ("shop", "orders")),
        ("Shop.Orders", ("Shop", "Orders")),
        ("été.table à moi", ("été", "table à moi")),
        ("`a.b`.orders", ("a.b", "orders")),
        ("`a.b`.`or.ders`@exp", ("a.b@exp", "or.ders")),
        ("`a.b@exp`.orders", ("a.b@exp", "orders")),
        ("shop.`orders`", ("shop", "orders")),
    ],
)
def test_two_part_names_keep_their_case(text: str, parts: tuple[str, str]) -> None:
    assert parse_table_name(text) == parts


_NAMES = st.text("aB.@ é", min_size=1, max_size=8)


@given(_NAMES, _NAMES)
def test_a_full_name_is_read_as_its_two_parts(database: str, table: str) -> None:
    try:
        check_name(database, "database"), check_new_name(table, "table")
    except InvalidInput:
        return
    assert parse_table_name(full_name(database, table)) == (database, table)


def test_a_database_lies_below_those_whose_levels_it_begins_with() -> None:
    assert parent_names("a.b.c") == ["a.b", "a"]
    assert parent_names("a.b@exp") == ["a@exp"]
    assert parent_names("shop") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders", "has 1 parts"),
        ("a.b.c", "has 3 parts"),
        (".orders", "must not be blank"),
        ("shop. ", "must not be blank"),
        ("shop. orders", "begins or ends with a space"),
        ("shop.or/ders", "contains '/'"),
        ("shop.or`ders", "an unclosed backquote"),
        ("shop.or`der`s", "a backquote inside a name"),
        ("shop.`orders`x", "a backquote inside a name"),
        ("`shop.orders`", "has 1 parts"),
        ("`a..b`.orders", "a dot next to nothing"),
        ("`a. b`.orders", "a dot next to nothing or a space"),
        ("`.a`.orders", "a dot next to nothing"),
        ("``.orders", "must not be blank"),
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


@given(st.text("abB", max_size=8), st.text("abB*|", max_size=10))
def test_patterns_mean_what_they_mean_in_spark(name: str, pattern: str) -> None:
    wanted = any(re.fullmatch(one.replace("*", ".*"), name, re.IGNORECASE) for one in pattern.split("|"))
    assert matches_pattern(name, pattern) is wanted


def test_other_characters_of_a_pattern_stand_for_themselves() -> None:
    assert not matches_pattern("a" * 200, "(a+)+$")
    assert not matches_pattern("orders", "[o]rders")
    assert matches_pattern("a" * 255, "*a" * 100 + "*")
    assert matches_pattern("orders", None)
