"""Control characters of strangers are shown, not obeyed."""

from __future__ import annotations

import json

import pytest

from moulin.printable import printable, printable_json

HOSTILE = {
    "\x1b[2J": "\\x1b[2J",
    "\x9b31m": "\\x9b31m",
    "a\rb\nc\td": "a\\rb\\nc\\td",
    "\x07\x08\x7f": "\\x07\\x08\\x7f",
    "user\u202etxt.exe": "user\\u202etxt.exe",
    "\u2066\u2069\u200f\u061c\u2028\ufeff": "\\u2066\\u2069\\u200f\\u061c\\u2028\\ufeff",
    "\ud800": "\\ud800",
}


@pytest.mark.parametrize(("text", "wanted"), HOSTILE.items())
def test_control_characters_become_escapes(text: str, wanted: str) -> None:
    assert printable(text) == wanted
    assert printable(wanted) == wanted


def test_other_text_and_what_is_kept_stays_as_it_is() -> None:
    for text in ("größer 日本 👩\u200d💻 \u00a0 café", "עברית", "\\n [bold]"):
        assert printable(text) == text
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize("text", HOSTILE)
def test_json_keeps_its_meaning(text: str) -> None:
    document = json.dumps({"a": [text]}, ensure_ascii=False, indent=1)
    escaped = printable_json(document)
    assert json.loads(escaped) == {"a": [text]}
    assert printable(escaped, keep="\n") == escaped
