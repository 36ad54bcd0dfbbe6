"""`moulin shell`, through a pipe and at a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import moulin
from tests.cli.conftest import Done, Run

AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "moulin.cli.main", *sys.argv[1:]])
"""
CTRL_C, CTRL_D, TAB = "\x03", "\x04", "\t"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("order_id", "long", False), ("note", "string")])
        table.append([{"order_id": n, "note": "\x1b[31m"} for n in range(3)])
        lake.create_view("shop.every", ["orders"])
    return tmp_path / "lake"


def piped(run: Run, folder: Path, text: str, *more: str) -> Done:
    return run("shell", "--engine", "duckdb", *more, stdin=text, lake=folder)


def test_statements_of_a_pipe_are_run(run: Run, folder: Path) -> None:
    text = "\\format csv\nselect count(*) as n\nfrom shop.orders; select ';' as\n  a -- b;\n; select 'x\n  y' as z"
    done = piped(run, folder, text)
    assert (done.code, done.out) == (0, 'Output format is csv.\nn\n3\na\n;\nz\n"x\n  y"\n')


def test_an_error_ends_a_pipe_unless_told_to_keep_going(run: Run, folder: Path) -> None:
    text = "\\format csv\nselect 1 as a; select x; select 2 as b;\n"
    stopped = piped(run, folder, text)
    assert (stopped.code, stopped.out.splitlines()[1:]) == (1, ["a", "1"])
    assert stopped.err.count("\n") == 1
    going = piped(run, folder, text, "--keep-going")
    assert (going.code, going.out.splitlines()[1:]) == (1, ["a", "1", "b", "2"])
    assert piped(run, folder, "select 'a").code == 1


def test_commands_describe_the_lake(run: Run, folder: Path) -> None:
    done = piped(run, folder, "\\l\n\\d\n\\dv\n\\d shop.orders\n\\d shop.every\n\\?\n")
    assert done.code == 0, done.err
    for word in ("shop.orders", "view of orders", "order_id", "long", "\\engine [spark | duckdb]"):
        assert word in done.out


def test_rows_go_to_a_file_once(run: Run, folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    file = tmp_path / "rows.parquet"
    text = f"\\format parquet\n\\o '{file}'\nfrom shop.orders;\nfrom shop.orders;\n"
    done = piped(run, folder, text)
    assert pq.read_table(file).num_rows == 3
    assert (done.code, "\\o FILE" in done.err) == (1, True)


def test_files_are_run_and_end_at_an_error(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("\\format csv\nselect 1 as a;\n")
    (tmp_path / "b.sql").write_text(f"\\i {tmp_path / 'b.sql'}\n")
    done = piped(run, folder, f"\\i {tmp_path / 'a.sql'}\nselect 2 as b;")
    assert (done.code, done.out.splitlines()[1:]) == (0, ["a", "1", "b", "2"])
    endless = piped(run, folder, f"\\i {tmp_path / 'b.sql'}\nselect 3 as c;")
    assert (endless.code, endless.out) == (1, "")
    assert "10 deep" in endless.err
    assert piped(run, folder, "\\i /no/such/file\n").code == 1


def test_wrong_commands_are_one_sentence(run: Run, folder: Path) -> None:
    wrong = ["\\x", "\\engine oracle", "\\format xml", "\\timing maybe", "\\limit many", "\\d a b", "\\i", "\\d 'a"]
    done = piped(run, folder, "\n".join(wrong) + "\nselect 4 as d;", "--keep-going")
    assert done.code == 1
    assert done.err.count("Error: ") == done.err.count("\n") == len(wrong)
    assert "4" in done.out


class Terminal:
    """A shell at a pseudo-terminal."""

    def __init__(self, folder: Path, state: Path) -> None:
        self._master, slave = pty.openpty()
        environment = {
            **os.environ,
            "TERM": "xterm",
            "COLUMNS": "120",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "XDG_STATE_HOME": str(state),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, "--lake", str(folder), "shell", "--engine", "duckdb"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait(self, text: str, seconds: float = 30) -> str:
        """What the terminal showed up to `text`, which is not shown again."""
        until = time.monotonic() + seconds
        while text not in self._seen:
            assert time.monotonic() < until, f"{text!r} is not in {self._seen!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self._seen += os.read(self._master, 65536).decode(errors="replace")
                except OSError as error:  # its end
                    raise AssertionError(f"{text!r} is not in {self._seen!r}") from error
        before, _, self._seen = self._seen.partition(text)
        return before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(folder: Path, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(folder, tmp_path / "state")
    yield opened
    opened.close()


def test_a_terminal_has_a_prompt_completion_cancellation_and_history(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait("moulin>")
    terminal.type("select count(*) as many\r")
    terminal.wait("->")
    terminal.type("from shop.or" + TAB)
    terminal.wait("ders")
    terminal.type(";\r")
    terminal.wait("many")
    terminal.wait("Time: ")
    terminal.wait("moulin>")

    terminal.type("select note from shop.orders;\r")
    assert "\x1b[31m\x1b" not in terminal.wait("Time: ")
    terminal.type("select nothing;\r")
    terminal.wait("Error:")
    terminal.wait("moulin>")

    terminal.type("select sum(a.range * b.range) from range(10000000) a, range(1000000) b;\r")
    time.sleep(1)
    terminal.type(CTRL_C)
    terminal.wait("was cancelled")
    terminal.wait("moulin>")
    terminal.type("select 'not sent" + CTRL_C)
    terminal.wait("moulin>")
    terminal.type("select 40 + 2 as answer;\r")
    terminal.wait("42")
    terminal.wait("moulin>")
    terminal.type(CTRL_D)
    assert terminal.process.wait(60) == 0
    history = tmp_path / "state" / "moulin" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "select 40 + 2 as answer;" in history.read_text()
