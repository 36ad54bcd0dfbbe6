"""What commands print is what a lake holds, to the letter."""

from __future__ import annotations

import pytest

from moulin.cli.output import complain, say, show_rows, show_values

TEXT = "a :smile: and [bold]"


def test_text_between_colons_and_brackets_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_values({"note": TEXT}, False)
    show_rows([{"note": TEXT}], False)
    say(TEXT)
    complain(TEXT)
    printed = capsys.readouterr()
    assert printed.out.count(TEXT) == 3
    assert printed.err.count(TEXT) == 1
