"""JSON is whole unless a limit was asked for; people see some rows, and how many they do not see."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from moulin.table.read.scan import Scan
from tests.cli.conftest import Run

ROWS = 250


@pytest.fixture
def lake(run: Run, tmp_path: Path) -> Run:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")])
        for start in range(0, ROWS, 10):
            table.append(pa.table({"id": range(start, start + 10), "name": ["x"] * 10}))
    return run


COMMANDS = {
    "scan": (("scan", "shop.t"), ROWS, 20, "230 more not shown"),
    "a scan with a condition": (("scan", "shop.t", "--where", "id >= 100"), 150, 20, "; 130 more not shown"),
    "changes": (("changes", "shop.t", "--since", "2"), ROWS, 100, "; 150 more not shown"),
    "history": (("table", "history", "shop.t"), ROWS // 10 + 1, 20, "; 6 more not shown"),
}


@pytest.mark.parametrize(("words", "total", "usual", "told"), COMMANDS.values(), ids=COMMANDS)
def test_lists_are_cut_for_people_only(lake: Run, words: tuple[str, ...], total: int, usual: int, told: str) -> None:
    everything = lake(*words, "--json").json()
    assert len(everything) == total
    assert lake(*words, "--json", "--limit", "0").json() == everything
    assert lake(*words, "--json", "--limit", "3").json() == everything[:3]
    shown = lake(*words)
    assert shown.out.count("\n") == usual + 5
    assert told in shown.out
    assert "not shown" not in lake(*words, "--limit", "0").out
    assert "not shown" not in lake(*words, "--limit", str(total)).out
    wrong = lake(*words, "--limit", "-1")
    assert (wrong.code, "--limit must be zero or more" in wrong.err) == (1, True)


def test_rows_are_printed_while_they_are_read(
    lake: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scan that fails half-way has printed what it read, and no end: a reader notices that it is not whole."""
    read = Scan.to_batches

    def fail(scan: Scan) -> object:
        for batch in read(scan):
            for start in range(0, batch.num_rows, 50):
                if start == 150:
                    raise moulin.errors.Unavailable("The store does not answer.")
                yield batch.slice(start, 50)

    monkeypatch.setattr(Scan, "to_batches", fail)
    done = lake("scan", "shop.t", "--json")
    assert done.code == 1
    assert "The store does not answer." in done.err
    assert len(done.out.splitlines()) > 30
    with pytest.raises(ValueError, match="delimiter|Expecting"):
        done.json()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_results_of_sql_are_whole_and_in_order(lake: Run) -> None:
    query = "select id, timestamp'2024-03-01 10:00:00Z' as at, array(name) as names from shop.t order by id desc"
    everything = lake("sql", query, "--json").json()
    assert [row["id"] for row in everything] == list(range(ROWS))[::-1]
    assert lake("sql", query, "--json", "--limit", "200").json() == everything[:200]
    shown = lake("sql", query)
    assert "The first 100 rows; 150 more not shown" in shown.out
    assert "not shown" not in lake("sql", query, "--limit", "0").out
    assert lake("sql", f"{query} limit 0", "--json").json() == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_query_that_fails_while_it_runs_is_one_sentence(lake: Run, form: tuple[str, ...]) -> None:
    done = lake("sql", "select assert_true(id > 1000) from shop.t", *form)
    assert done.code == 1
    assert done.err.startswith("Error: The query failed: [USER_RAISED_EXCEPTION] '(id > 1000)' is not true!")
    assert len(done.err.splitlines()) == 1
    assert done.out == ""
