"""Where statements end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.statement_text import Dialect, split, statements

BOTH: tuple[Dialect, Dialect] = ("spark", "duckdb")


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" ; ;; ", []),
        ("select 1", ["select 1"]),
        ("select 1;select 2 ;", ["select 1", "select 2"]),
        ("select ';', ';;'; select 2", ["select ';', ';;'", "select 2"]),
        ("select 'it''s; so'; x", ["select 'it''s; so'", "x"]),
        ('select "a;b" from t; x', ['select "a;b" from t', "x"]),
        ("select 1 -- a; b\n, 2; x", ["select 1 -- a; b\n, 2", "x"]),
        ("select /* a; /* b; */ c; */ 1; x", ["select /* a; /* b; */ c; */ 1", "x"]),
        ("select 1; -- the end;", ["select 1"]),
        ("/* none; */ ;", []),
        ("select 1 - -1 / 2; x", ["select 1 - -1 / 2", "x"]),
        ("-- it's\nselect 1; x", ["-- it's\nselect 1", "x"]),
    ],
)
def test_a_semicolon_ends_a_statement_outside_of_quotes_and_comments(
    dialect: Dialect, text: str, found: list[str]
) -> None:
    assert statements(text, dialect) == found


def test_dialects_differ_in_backslashes_backquotes_and_dollars() -> None:
    assert statements(r"select 'a\';b'; x", "spark") == [r"select 'a\';b'", "x"]
    assert statements(r"select 'a\'; x", "duckdb") == [r"select 'a\'", "x"]
    assert statements(r"select r'a\'; x", "spark") == [r"select r'a\'", "x"]
    assert statements(r"select e'a\';b'; x", "duckdb") == [r"select e'a\';b'", "x"]
    assert statements("select `a;b`; x", "spark") == ["select `a;b`", "x"]
    assert statements("select $$a;b$$, $t$;$$;$t$; x", "duckdb") == ["select $$a;b$$, $t$;$$;$t$", "x"]
    assert statements("select $1; x", "duckdb") == ["select $1", "x"]
    assert statements("select 1 --a\\\n; b\n; x", "spark") == ["select 1 --a\\\n; b", "x"]


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(("text", "what"), [("a; select 'b;", "quote"), ("a; /* b; ", "comment"), ('"b', "quote")])
def test_what_is_not_closed_waits_for_more(dialect: Dialect, text: str, what: str) -> None:
    cut = split(text, dialect)
    assert (cut.unclosed, cut.statements) == (what, ["a"] if text.startswith("a") else [])
    with pytest.raises(InvalidInput, match=f"inside a {what}"):
        statements(text, dialect)


@given(st.lists(st.sampled_from(["'", '"', "`", ";", "--", "\n", "/*", "*/", "\\", "$$", "a", " ", "r", "E"])))
def test_any_text_is_split_without_losing_code(parts: list[str]) -> None:
    text = "".join(parts)
    for dialect in BOTH:
        cut = split(text, dialect)
        kept = iter(text)
        assert all(letter in kept for statement in (*cut.statements, cut.rest) for letter in statement)
        assert all(split(statement, dialect).statements == [] for statement in cut.statements)
