"""The words of query languages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.console.words import Words
from moulin.errors import InvalidInput

_TOKEN = re.compile(r"""(?P<space>\s+)|(?P<text>"(?:\\.|[^"\\\n])*"|`[^`]*`)|(?P<name>[a-z]+)|(?P<sign>[(),])""")


def _text(text: str) -> str:
    return Words(text, _TOKEN).text()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\\"', "a\\"),
        (r'"\\\'"', "\\'"),
        (r'"\x41\101\u00e9\U0001f600"', "AAé😀"),
        (r'"\a\b\f\n\r\t\v\""', '\a\b\f\n\r\t\v"'),
        (r"`a\n`", r"a\n"),
        ('"tab\there"', "tab\there"),
    ],
)
def test_texts_have_the_escapes_of_go(written: str, meant: str) -> None:
    assert _text(written) == meant


@pytest.mark.parametrize("written", [r'"\q"', r'"\ud800"', r'"\U00110000"', r'"\xff"', r'"\377"', r'"\u12"', r'"\/"'])
def test_unknown_escapes_are_refused_with_their_column(written: str) -> None:
    with pytest.raises(InvalidInput, match="column 1: .*escape"):
        _text(written)


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=30))
def test_a_text_that_is_escaped_is_read_as_it_was(text: str) -> None:
    assert _text('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"') == text


def test_reading_stays_at_the_end() -> None:
    words = Words("a", _TOKEN)
    assert [words.take(), words.take(), words.following, words.kind] == ["a", "", "", "end"]
    with pytest.raises(InvalidInput, match="column 2: . is missing here"):
        words.expect(")")


@pytest.mark.parametrize("query", ["a" * 5001, "," * 500])
def test_long_queries_are_refused(query: str) -> None:
    with pytest.raises(InvalidInput, match="has at most"):
        Words(query, _TOKEN)
