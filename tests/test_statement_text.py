"""Where statements end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.statement_text import Dialect, branches_in, split, statements, with_branches

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


@pytest.mark.parametrize(
    ("text", "spark", "duckdb"),
    [
        ("from shop.orders@exp o", "from `shop@exp`.orders o", 'from "shop@exp".orders o'),
        ("from shop@exp.orders", "from `shop@exp`.orders", 'from "shop@exp".orders'),
        ("a.b@c.history", "`a@c`.b.history", '"a@c".b.history'),
        ("moulin.a.b@c", "moulin.`a@c`.b", 'moulin."a@c".b'),
        ("x join a.b@exp-1--c", "x join `a@exp-1`.b--c", 'x join "a@exp-1".b--c'),
        ("'a.b@c' -- a.b@c", "'a.b@c' -- a.b@c", "'a.b@c' -- a.b@c"),
        ("/* a.b@c /* */ a.b@c */ a.b@c", "/* a.b@c /* */ a.b@c */ `a@c`.b", '/* a.b@c /* */ a.b@c */ "a@c".b'),
        ("select @x, a @ b, a.b@", "select @x, a @ b, a.b@", "select @x, a @ b, a.b@"),
        ("'open a.b@c", "'open a.b@c", "'open a.b@c"),
        ("SHOW TABLES IN shop@exp", "SHOW TABLES IN `shop@exp`", 'SHOW TABLES IN "shop@exp"'),
    ],
)
def test_branches_are_read_outside_of_strings_and_comments(text: str, spark: str, duckdb: str) -> None:
    assert with_branches(text, "spark", "moulin") == spark
    assert with_branches(text, "duckdb", "moulin") == duckdb


def test_quoted_names_keep_what_they_hold() -> None:
    assert with_branches("`a.b@c`, `d``e`.`f g`@`h--i`", "spark") == "`a.b@c`, `d``e@h--i`.`f g`"
    assert with_branches('"a.b@c", "d""e"."f"@g, r\'x.y@z\'', "duckdb") == '"a.b@c", "d""e@g"."f", r\'x.y@z\''
    assert with_branches('r"a.b@c" "d.e@f" d.e@f', "spark") == 'r"a.b@c" "d.e@f" `d@f`.e'
    assert with_branches("$$a.b@c$$ a.b@c e'\\'a.b@c'", "duckdb") == "$$a.b@c$$ \"a@c\".b e'\\'a.b@c'"


@pytest.mark.parametrize("text", ["a.b@x.c@y", "a.b.c.d@e", "a@x.b@y"])
def test_a_branch_in_a_wrong_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="write database.table@branch"):
        with_branches(text, "spark", "moulin")


def test_branches_are_found_in_quoted_and_plain_names() -> None:
    text = 'from a.b@one, "c@two".d, \'e.f@three\', "g"."h"@"four" -- i.j@five'
    assert branches_in(text, "duckdb") == {"one", "two", "four"}


@given(st.text("ab.@'\"`-/*\n $r\\", max_size=40))
def test_texts_without_a_name_at_a_branch_are_left_alone(text: str) -> None:
    for dialect in BOTH:
        try:
            found = with_branches(text, dialect)
        except InvalidInput:
            continue
        assert found.replace("`", "").replace('"', "").count("@") == text.count("@")
        if not branches_in(text, dialect):
            assert found == text
