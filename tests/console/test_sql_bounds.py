"""What a statement may take of a server: memory of its child, and of the server by what is kept and shown of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moulin.cli.served import Sql
from moulin.lake import Lake
from tests.console.conftest import Serve
from tests.console.statements import children, refusal, rows, run

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _small_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moulin.cli.served._OF_A_CHILD", 400 * MIB)


def test_a_statement_that_takes_memory_past_duckdbs_own_limit_is_stopped(shop: Lake, serve: Serve) -> None:
    """Rows are made into Arrow outside of what DuckDB counts: 100 GB of text in one batch."""
    api = serve(shop, sql=Sql("auto", {"memory_bytes": 256 * MIB, "result_bytes": MIB}))
    said = refusal(api, "select repeat('x', 100000000) from range(1000)")
    assert said.startswith("Unavailable: The statement took too much memory"), said
    assert rows(api, "select count(*) from shop.orders") == [["190"]]
    assert len(children()) == 1


def test_columns_whose_names_fill_the_memory_are_refused(shop: Lake, serve: Serve) -> None:
    """A schema is a part of a result, and was in none of its limits."""
    api = serve(shop, sql=Sql("auto", {"result_bytes": MIB}))
    text = f'with a as (select 1 as "{"x" * 20_000}") select {", ".join(["*"] * 200)} from a'
    assert refusal(api, text).startswith("InvalidInput: The result has too many columns")
    wide = run(api, f"select {', '.join(f'{n} as column_{n}' for n in range(2000))}")
    assert (wide["state"], len(wide["columns"])) == ("done", 2000)


def test_lists_of_values_of_few_bits_count_for_what_they_become(shop: Lake, serve: Serve) -> None:
    """A million booleans are 125 KB of Arrow, and took eight MB of the server's memory in each answer."""
    api = serve(shop, sql=Sql("auto", {"result_bytes": MIB}))
    for text in ("list(true)", "list(null)", "list({'a': true})", "map([1], [list(true)])"):
        found = run(api, f"select {text} as it from range(1000000)")
        assert (found["rows"], found["more"], found["cut"]) == (0, True, True), (text, found)
    found = run(api, "select list(true) as it from range(10000)")
    assert (found["rows"], found["cut"]) == (1, False)


@pytest.mark.crash
def test_a_server_that_is_killed_leaves_nothing_of_its_statements(shop: Lake, tmp_path: Path) -> None:
    """A child ended with its server, and left what it had spilled: up to four gigabytes, for ever."""
    code = (
        "import moulin, time\n"
        "from moulin.cli.served import Sql, _statements\n"
        "from moulin.network.callers import ANYONE\n"
        f"lake = moulin.connect({str(tmp_path / 'lake')!r})\n"
        "statements = _statements(lake, Sql())\n"
        "made = statements.start(ANYONE, 'select count(*) from shop.orders')\n"
        "made.over.wait(60)\n"
        "print(made.state, flush=True)\n"
        "time.sleep(600)\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)}
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "done"
        assert list(temporary.glob("moulin-sql-*"))
    finally:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()
    end = time.monotonic() + 30
    while list(temporary.glob("moulin-sql-*")) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(temporary.glob("moulin-sql-*"))
