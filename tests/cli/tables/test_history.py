"""`moulin table history`: what is kept, and where it begins."""

from __future__ import annotations

from tests.cli.conftest import Run


def test_a_history_says_where_it_begins_once_clean_up_was_there(run: Run) -> None:
    for words in (["init"], ["db", "create", "shop"], ["table", "create", "shop.t", "id:long"]):
        assert run(*words).code == 0
    for n in range(3):
        assert run("append", "shop.t", "-", stdin=f'{{"id": {n}}}\n').code == 0
    assert "starts" not in run("table", "history", "shop.t").out
    assert run("gc", "--history-keep", "0").code == 0
    shown = run("table", "history", "shop.t")
    assert "The history starts at version 5" in shown.out
    assert len(run("table", "history", "shop.t", "--json").json()) == 1
