"""The lake itself: what its tables share is made once, with the first of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import moulin
from moulin.errors import Closed, InvalidInput
from moulin.lake import Lake
from moulin.table import context as contexts

_COLUMNS = [("id", "long"), ("name", "string")]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path) as opened:
        opened.create_database("d")
        yield opened


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[contexts.Context]:
    """The contexts that are made during a test."""
    found: list[contexts.Context] = []
    make = contexts.Context.__post_init__

    def note(self: contexts.Context) -> None:
        found.append(self)
        make(self)

    monkeypatch.setattr(contexts.Context, "__post_init__", note)
    return found


def test_threads_that_come_at_once_share_one_context(lake: Lake, made: list[contexts.Context]) -> None:
    threads = 8
    start = Barrier(threads)

    def ask(_: int) -> contexts.Context:
        start.wait()
        return lake.context

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(ask, range(threads)))
    assert len(made) == 1
    assert all(one is made[0] for one in found)


def test_what_needs_no_table_makes_no_context(tmp_path: Path, made: list[contexts.Context]) -> None:
    with moulin.connect(tmp_path) as lake:
        lake.create_database("d")
        assert [found.name for found in lake.databases()] == ["d"]
        assert lake.refresh() == lake.version
        lake.own_catalog()
        lake.flush()
    assert made == []


def test_a_flush_commits_what_a_dead_process_left_though_no_table_was_opened(lake: Lake, tmp_path: Path) -> None:
    dying = """
import os, sys, moulin
table = moulin.connect(sys.argv[1]).create_table("d.t", [("id", "long"), ("name", "string")], primary_key=["id"])
table.put({"id": 1, "name": "a"})
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=True)
    assert [found.rows for found in lake.tables("d")] == [0]
    lake.flush()
    assert [found.rows for found in lake.tables("d")] == [1]


def test_a_closed_lake_makes_no_context(lake: Lake, made: list[contexts.Context]) -> None:
    lake.close()
    with pytest.raises(Closed):
        _ = lake.context
    with pytest.raises(Closed):
        lake.flush()
    assert made == []


def test_a_lake_closes_twice(lake: Lake) -> None:
    lake.create_table("d.t", _COLUMNS, primary_key=["id"]).put({"id": 1, "name": "a"})
    lake.close()
    lake.close()


def test_the_old_name_of_the_way_to_spark_works_and_warns(lake: Lake) -> None:
    with pytest.warns(DeprecationWarning, match=r"Lake\.spark\(\)"):
        engine = lake.engine()
    assert engine is lake.context.spark()


def test_an_unknown_setting_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Unknown setting 'log_snyc'. Did you mean 'log_sync'?"):
        moulin.connect(tmp_path / "lake", log_snyc="never")  # type: ignore[call-arg]
