"""What commands print is what a lake holds, to the letter; control characters are shown, not sent."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import moulin
from moulin.cli.documents import write_document
from moulin.cli.output import Screen, complain, print_logs, say, show_limited, show_rows, show_values, warn
from moulin.network.logs import JsonFormatter, TextFormatter
from moulin.printable import printable
from tests.cli.conftest import Run

TEXT = "a :smile: and [bold]"
HOSTILE = "x\x1b]0;owned\x07\x1b[31m\x9b2J\u202eabc\r\nversion 7"
SHOWN = "x\\x1b]0;owned\\x07\\x1b[31m\\x9b2J\\u202eabc\\r\\nversion 7"


def test_text_between_colons_and_brackets_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_values({"note": TEXT}, False)
    show_rows([{"note": TEXT}], False)
    say(TEXT)
    complain(TEXT)
    printed = capsys.readouterr()
    assert printed.out.count(TEXT) == 3
    assert printed.err.count(TEXT) == 1


def test_control_characters_in_values_names_titles_and_errors_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_values({HOSTILE: HOSTILE}, False)
    show_rows([{HOSTILE: HOSTILE}, {HOSTILE: [HOSTILE]}], False, title=HOSTILE)
    show_rows([], False, empty=HOSTILE)
    say(HOSTILE.replace("\n", ""))
    complain(HOSTILE)
    warn(HOSTILE)
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert printable(text, keep="\n") == text
    assert printed.out.count(SHOWN) == 7
    assert printed.err.count(SHOWN) == 2


def test_a_console_sends_no_control_character_that_it_was_given() -> None:
    file = io.StringIO()
    screen = Screen(file=file, force_terminal=True, color_system="standard", highlight=False)
    screen.print("[red]mine[/red] " + HOSTILE)
    assert "\x1b[31mmine" in file.getvalue()
    assert file.getvalue().count("\x1b") == 2
    assert not set("\x07\x9b\u202e") & set(file.getvalue())


def test_log_lines_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.makeLogRecord({"msg": HOSTILE, "name": "moulin", "table": HOSTILE})
    assert SHOWN in TextFormatter().format(record)
    line = JsonFormatter().format(record)
    assert printable(line) == line
    assert json.loads(line)["table"] == HOSTILE
    print_logs()
    assert logging.lastResort is not None
    assert logging.lastResort.format(record) == SHOWN.replace("\\n", "\n")


def test_json_is_valid_and_holds_the_values_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"text": HOSTILE, "bytes": b"\x00\xff", "nan": float("nan"), "list": [float("inf"), 1.5], "none": None}
    show_rows([row, row], True)
    write_document(row)
    printed = capsys.readouterr().out
    assert printable(printed, keep="\n") == printed
    listed, end = json.JSONDecoder(parse_constant=pytest.fail).raw_decode(printed)
    wanted = {"text": HOSTILE, "bytes": "00ff", "nan": "NaN", "list": ["Infinity", 1.5], "none": None}
    assert listed == {"json_version": 1, "rows": [wanted, wanted]}
    assert json.loads(printed[end:]) == {"json_version": 1, **wanted}


def test_people_are_told_of_rows_that_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"n": n} for n in range(5)]
    for limit, total, wanted in [
        (3, 5, "The first 3 rows; 2 more not shown, --limit 0 shows all."),
        (3, None, "The first 3 rows; 2 more not shown, --limit 0 shows all."),
        (5, 5, ""),
        (None, None, ""),
    ]:
        show_limited(iter(rows), False, limit, total=total)
        assert ("The first" in (out := capsys.readouterr().out)) == bool(wanted)
        assert wanted in out


def test_rows_beyond_a_limit_are_counted_up_to_a_thousand(capsys: pytest.CaptureFixture[str]) -> None:
    def endless() -> Iterator[dict[str, int]]:
        for n in range(2_000):
            assert n < 1_004, "read too far"
            yield {"n": n}

    show_limited(endless(), False, 3)
    assert "The first 3 rows; 1,000 or more not shown" in capsys.readouterr().out


def test_a_long_list_is_printed_while_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    def endless() -> object:
        for n in range(2_500):
            if n == 2_400:
                assert capsys.readouterr().out.count("\n") > 1_900
            yield {"n": n}

    show_rows(endless(), False)  # type: ignore[arg-type]
    assert "2,499" in capsys.readouterr().out


WIDE = {f"column_{n}": "v" * 60 for n in range(6)}


def test_text_is_wrapped_at_terminals_only(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        f"from moulin.cli.output import *; show_rows([{WIDE}], False, data=True); say('w ' * 99)",
    ]
    for extra in ({}, {"COLUMNS": "40"}, {"FORCE_COLOR": "1"}):
        piped = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **extra}).stdout
        assert piped.count("v" * 60) == 6
        assert len(piped.splitlines()[-1].split()) == 99
        assert len(piped.splitlines()) == 6
    shown = at_terminal(command, 76)
    assert max(map(len, shown.splitlines())) <= 76
    assert re.search(r"column_5 +v{60}", shown)
    assert "6 columns do not fit on this terminal" in shown
    assert "do not fit" not in at_terminal(command, 600)


def at_terminal(command: list[str], width: int) -> str:
    """What a command prints to a terminal of this width."""
    main, end = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=end, stderr=end, env=environment) as process:
        os.close(end)
        shown = b""
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:  # the other end is closed
            pass
    os.close(main)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def test_commands_show_hostile_values_comments_and_properties(run: Run, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        columns = [("id", "long"), ("name", "string")]
        table = lake.create_table("shop.t", columns, primary_key=["id"], properties={"note": HOSTILE})
        table.put({"id": 1, "name": HOSTILE})
        lake.create_view("shop.v", ["t"], description=HOSTILE)
    for words in (
        ("scan", "shop.t"),
        ("get", "shop.t", "1"),
        ("table", "show", "shop.t"),
        ("view", "show", "shop.v"),
        ("view", "list", "shop"),
        ("changes", "shop.t", "--since", "2"),
        ("scan", "shop.t", "--where", f"nothing = '{HOSTILE}'"),
        ("table", "show", f"shop.{HOSTILE}"),
        ("scan", "shop.t", "--column", HOSTILE),
        ("append", "shop.t", f"{HOSTILE}.csv"),
        (HOSTILE,),
    ):
        for form in ((), ("--json",)):
            done = run(*words, *form)
            assert done.code in (0, 1, 2)
            assert printable(done.out + done.err, keep="\n") == done.out + done.err, words


def test_maps_are_objects_in_json_whatever_their_keys_are(run: Run, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("m", "map<string, double>"), ("d", "map<date, int>")]
        table = lake.create_table("shop.t", columns, primary_key=["id"])
        table.append([{"id": 1, "m": {"a": float("nan")}, "d": {"2024-05-01": 2}}])
    row = {"id": 1, "m": {"a": "NaN"}, "d": {"2024-05-01": 2}}
    assert run("scan", "shop.t", "--json").json() == [row]
    assert run("get", "shop.t", "1", "--json").json() == row
