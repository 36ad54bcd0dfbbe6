"""`moulin mirror --once`: the copy has all that was acknowledged, or the command says what it lacks."""

from __future__ import annotations

import os
from pathlib import Path

import moulin
from moulin.ingest.setup import set_up
from tests.cli.conftest import Run
from tests.pipeline.nursery.test_nursery import Writer, logs


def test_a_copy_has_rows_that_a_killed_process_put(tmp_path: Path, run: Run) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", [("id", "long", False)], primary_key=["id"]).append({"id": [1]})
    if (child := os.fork()) == 0:
        moulin.connect(tmp_path / "lake").table("shop.t").put({"id": 2})
        os._exit(0)  # nothing is flushed
    os.waitpid(child, 0)
    done = run("mirror", str(tmp_path / "copy"), "--once")
    assert (done.code, done.err) == (0, "")
    assert run("recover", lake=tmp_path / "copy").code == 0
    with moulin.connect(tmp_path / "copy") as copy:
        assert copy.table("shop.t").scan(ordered=True).to_pylist() == [{"id": 1}, {"id": 2}]


def test_what_no_nursery_took_is_said_to_be_missing_from_the_copy(tmp_path: Path, run: Run) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        Writer(lake, token).send(logs("r0"))
    done = run("mirror", str(tmp_path / "copy"), "--once")
    assert done.code == 0
    assert "lacks 1 baby segment of collectors" in done.err
    assert "moulin nursery --once" in done.err
    assert run("nursery", "--once", "--no-spark").code == 0
    assert run("mirror", str(tmp_path / "copy"), "--once").err == ""
