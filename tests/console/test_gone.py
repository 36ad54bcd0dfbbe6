"""A lake that is gone for a while: each answer says so in a sentence, and all is as before when the lake is back."""

from __future__ import annotations

from pathlib import Path

from moulin.ingest.setup import set_up
from moulin.lake import Lake
from tests.console.conftest import Serve, ids

ROUTES = (
    "/lake",
    "/lake/activity",
    "/search?q=ord",
    "/tables",
    "/tables/{id}",
    "/tables/{id}/segments",
    "/tables/{id}/tasks",
    "/tables/{id}/rows",
    "/tables/{id}/commits",
    "/tables/{id}/diff?since=3&until=9",
    "/branches",
    "/streams",
    "/tasks",
    "/trash",
    "/ingest/tokens",
    "/logs/search",
    "/logs/histogram",
    "/traces",
    "/metrics/names",
)


def test_a_lake_that_is_gone_is_told_and_comes_back(shop: Lake, serve: Serve, tmp_path: Path) -> None:
    set_up(shop)
    api = serve(shop)
    table = ids(api)["shop.orders"]
    paths = [path.replace("{id}", table) for path in ROUTES]
    before = {path: api.get(path).status_code for path in paths}
    assert set(before.values()) == {200}
    folder, away = tmp_path / "lake", tmp_path / "away"
    folder.rename(away)
    try:
        for path in paths:
            answer = api.get(path)
            if answer.status_code != 200:  # what is in memory is shown
                error = answer.json()["error"]
                assert error["code"] == answer.status_code, path
                assert error["message"].strip(), path
                assert "Traceback" not in answer.text, path
        assert api.get(f"/tables/{table}/rows").status_code != 200 or api.get("/lake").status_code == 200
    finally:
        away.rename(folder)
    assert {path: api.get(path).status_code for path in paths} == before
