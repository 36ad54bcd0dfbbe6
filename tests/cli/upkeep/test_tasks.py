"""`moulin task`: what operators see of merge tasks and do about them, on a lake at hand and on one behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import moulin
from moulin.catalog.segments.stats import Filter
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.server import build_server
from moulin.table.compact.planner import create_tasks
from tests.cli.conftest import Run

LOOPBACK = ServeConfig(bind="127.0.0.1:0", http_bind="")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        for name in ("shop.a", "shop.b"):
            table = lake.create_table(name, [("id", "long")])
            for n in range(3):
                table.append([{"id": n}])
            create_tasks(lake.context, table.id, Filter())
        yield lake


@pytest.fixture(params=["embedded", "grpc"])
def address(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Any]:
    if request.param == "embedded":
        yield lake.uri
        return
    server = build_server(lake, LOOPBACK).start()
    yield f"grpc://{server.address}"
    server.stop()


def test_tasks_are_listed_shown_released_and_deleted(run: Run, lake: Lake, address: Any) -> None:
    claimed = lake.catalog.maintenance.claim_merge_task("worker 7", seconds=300)
    assert claimed is not None
    id_of_it = str(claimed.claim.task_id)
    rows = run("task", "list", "--json", lake=address).json()
    assert sorted(row["table"] for row in rows) == ["shop.a", "shop.b"]
    mine = next(row for row in rows if row["id"] == id_of_it)
    assert (mine["state"], mine["worker"], mine["segments"]) == ("claimed", "worker 7", 3)
    assert 0 < mine["free_in_seconds"] <= 300
    [listed] = run("task", "list", mine["table"], "--json", lake=address).json()
    assert listed["id"] == id_of_it
    shown = run("task", "show", id_of_it, "--json", lake=address).json()
    assert len(shown["inputs"]) == 3
    assert shown["bytes"] > 0
    assert "worker 7" in run("task", "show", id_of_it, lake=address).out
    assert "worker 7" in run("task", "list", lake=address).out

    assert run("task", "release", id_of_it, "--json", lake=address).json()["released"] is True
    assert run("task", "show", id_of_it, "--json", lake=address).json()["state"] == "waiting"
    assert "already free" in run("task", "release", id_of_it, lake=address).out
    assert run("task", "delete", id_of_it, "--json", lake=address).json()["deleted"] is True
    assert len(run("task", "list", "--json", lake=address).json()) == 1


def test_mistakes_are_told_in_a_sentence(run: Run, lake: Lake, address: Any) -> None:
    for words in (["show"], ["release"], ["delete"]):
        unknown = run("task", *words, str(uuid4()), lake=address)
        assert unknown.code == 1
        assert "does not exist" in unknown.err
        assert "UUID" in run("task", *words, "seven", lake=address).err


def test_a_lapsed_task_is_told_from_one_that_is_worked_on(run: Run, lake: Lake) -> None:
    lake.catalog.maintenance.claim_merge_task("gone", seconds=0.0)
    states = {row["worker"]: row["state"] for row in run("task", "list", "--json").json()}
    assert states == {"gone": "lapsed", None: "waiting"}


def test_a_reader_sees_tasks_and_only_a_writer_changes_them(
    run: Run, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = AccessFile(tmp_path / "access.toml")
    tokens = {role: access.create(role.name.lower(), role) for role in (Role.READ, Role.WRITE)}
    server = build_server(lake, replace(LOOPBACK, auth="on", access_file=str(access.path))).start()
    try:
        [first, *_] = lake.catalog.maintenance.merge_tasks()
        monkeypatch.setenv("MOULIN_TOKEN", tokens[Role.READ])
        assert len(run("task", "list", "--json", lake=f"grpc://{server.address}").json()) == 2
        assert run("task", "show", str(first.id), lake=f"grpc://{server.address}").code == 0
        for word in ("release", "delete"):
            refused = run("task", word, str(first.id), lake=f"grpc://{server.address}")
            assert refused.code == 1
            assert "takes the role write" in refused.err
        assert len(lake.catalog.maintenance.merge_tasks()) == 2
        monkeypatch.setenv("MOULIN_TOKEN", tokens[Role.WRITE])
        assert run("task", "delete", str(first.id), lake=f"grpc://{server.address}").code == 0
    finally:
        server.stop()
