"""Completion of hostile texts: a text of 128 Ki characters held the interpreter for minutes, and with it the server."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from moulin.console.sql.completion import Kind, complete
from moulin.console.sql.statements import LONGEST_TEXT


class Lookups:
    """A lake with one table; counts what is asked for."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()

    def databases(self) -> Iterable[str]:
        return ["shop"]

    def tables(self, database: str) -> Iterable[tuple[str, Kind]]:
        return [("orders", "table")]

    def columns(self, database: str, table: str) -> Iterable[tuple[str, str]]:
        self.asked.add((database, table))
        return [("id", "long")] if (database, table) == ("shop", "orders") else []


@pytest.mark.parametrize(
    "pattern", ["a", "a.", '"a".', "`a`.", "a.b ", "'", "'a", "`", '"', "/*", "--", "from a,", "a.b as ", " ", "\\"]
)
def test_the_longest_text_is_completed_at_once(pattern: str) -> None:
    """Each of the first four took time with the square of its length: 16 KB five seconds."""
    text = (pattern * LONGEST_TEXT)[: LONGEST_TEXT - 1] + " "
    for before, after in ((text, ""), ("select ", text)):
        complete(before, after, "duckdb", Lookups(), ["sum"])


def test_a_text_that_names_many_tables_asks_for_few_of_them() -> None:
    names = Lookups()
    text = ", ".join(f"shop.t{number}" for number in range(5000))
    complete(f"select * from {text} where ", "", "spark", names, [])
    assert len(names.asked) <= 100


@pytest.mark.parametrize("before", ["select ", 'select "', "select x.", 'select * from "shop"."orders" as x where x.'])
def test_columns_of_quoted_tables_are_found(before: str) -> None:
    _, found = complete(before, ' from "shop"."orders" x', "duckdb", Lookups(), [])
    assert "id" in [one.text for one in found]
