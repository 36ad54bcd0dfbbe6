"""The same commands on a folder and through a server; tokens for the server and for ingest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moulin.config import Config
from moulin.errors import Unauthenticated
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.server.serve import Serving
from moulin.meta.server.server import build_server
from tests.cli.conftest import Done, Run

Command = Callable[..., Done]


@pytest.fixture(params=["folder", "grpc"])
def command(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Iterator[Command]:
    """`moulin --lake ...` on a new lake, by its folder or through a server."""
    assert run("init").code == 0
    if request.param == "folder":
        yield run
        return
    with Lake.open(tmp_path / "lake") as lake:
        server = build_server(lake, ServeConfig(bind="127.0.0.1:0", http_bind="")).start()
        yield lambda *words, **more: run(*words, lake=f"grpc://{server.address}", **more)
        server.stop(1)


def test_databases_tables_and_views_are_managed_through_a_server(command: Command) -> None:
    assert command("db", "create", "shop").out == "Created database shop.\n"
    assert command("table", "create", "shop.orders", "id:long!", "name:string").code == 0
    assert command("append", "shop.orders", "-", "--format", "ndjson", stdin='{"id": 1, "name": "a"}\n').code == 0
    assert command("table", "list", "shop", "--json").json()[0]["rows"] == 1
    assert command("table", "show", "shop.orders", "--json").json()["columns"][1]["column"] == "name"
    assert command("table", "rename", "shop.orders", "shop.sales").code == 0
    assert command("view", "create", "shop.all", "sales").code == 0
    assert command("view", "list", "shop", "--json").json()[0]["tables"] == ["sales"]
    assert command("table", "history", "shop.sales", "--json").json()[0]["operation"] == "append"
    failed = command("table", "drop", "shop.sales")
    assert (failed.code, "used by the view" in failed.err) == (1, True)
    assert command("view", "drop", "shop.all").code == 0
    assert command("table", "drop", "shop.sales", "--json").json()["until"]
    assert command("table", "resurrect", "shop.sales").code == 0
    preview = command("db", "drop", "shop", "--dry-run", "--json").json()
    assert {"kind": "table", "name": "sales"} in preview
    assert command("db", "drop", "shop", "--cascade").code == 0
    assert command("db", "list", "--json").json() == []
    assert command("db", "resurrect", "shop").code == 0


def test_a_token_shows_its_secret_once_and_is_rotated_routed_dropped_and_resurrected(command: Command) -> None:
    command("db", "create", "telemetry")
    for table in ("traces", "rest"):
        command("table", "create", f"telemetry.{table}", "ts:timestamptz")
    made = command("token", "create", "telemetry.agent", "--table", "rest", "--traces", "traces", "--json").json()
    secret = made["secret"]
    shown = command("token", "show", "telemetry.agent", "--json")
    assert secret not in shown.out
    assert shown.json()["secret_ends_in"] == secret[-4:]
    assert (shown.json()["traces"], shown.json()["logs"], shown.json()["metrics"]) == ("traces", "rest", "rest")
    again = command("token", "rotate", "telemetry.agent", "--expires-days", "2")
    assert again.out.splitlines()[-1].startswith("ing_")
    assert command("token", "list", "telemetry", "--json").json()[0]["expires"]
    assert command("token", "route", "telemetry.agent", "--logs", "traces").code == 0
    assert command("token", "show", "telemetry.agent", "--json").json()["logs"] == "traces"
    assert command("token", "drop", "telemetry.agent").code == 0
    assert command("token", "list", "telemetry", "--json").json() == []
    assert command("token", "list", "telemetry", "--all", "--json").json()[0]["gone_at"]
    assert command("token", "resurrect", "telemetry.agent").code == 0
    preview = command("db", "drop", "telemetry", "--dry-run", "--json").json()
    assert {"kind": "token", "name": "agent"} in preview
    missing = command("token", "show", "telemetry.nobody")
    assert (missing.code, "does not exist" in missing.err) == (1, True)
    incomplete = command("token", "create", "telemetry.other", "--logs", "rest")
    assert (incomplete.code, "--traces" in incomplete.err) == (1, True)


def test_access_tokens_are_made_listed_and_revoked(run: Run, tmp_path: Path) -> None:
    run("init")
    secret = run("access", "create", "ci", "--role", "write", "--json").json()["secret"]
    file = AccessFile(tmp_path / "lake" / "access.toml")
    assert file.authenticate(secret).name == "ci"
    assert run("access", "list", "--json").json() == [{"name": "ci", "role": "write", "expires": None}]
    assert run("access", "create", "bad", "--role", "king").code == 1
    rotated = run("access", "rotate", "ci", "--json").json()
    assert rotated["name"] == "ci"
    assert file.authenticate(rotated["secret"]).name == "ci"
    with pytest.raises(Unauthenticated):
        file.authenticate(secret)
    assert run("access", "rotate", "nobody").code == 1
    assert run("access", "revoke", "ci").code == 0
    assert file.tokens() == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bind", "nonsense"], "host:port"),
        (["--bind", "0.0.0.0:0"], "moulin access create"),
        (["--config", "nowhere.toml"], "does not exist"),
    ],
)
def test_a_server_that_cannot_start_says_why(run: Run, words: list[str], said: str) -> None:
    run("init")
    done = run("serve", "--http-bind", "", *words)
    assert (done.code, said in done.err) == (1, True), done.err


def test_an_unknown_setting_keeps_a_server_from_starting(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init")
    (tmp_path / "lake" / "moulin.toml").write_text("[serve]\nport = 1\n")
    assert "Unknown setting 'port' of [serve]; known settings: " in run("serve").err
    (tmp_path / "lake" / "moulin.toml").unlink()
    monkeypatch.setenv("MOULIN_PIN_SECOND", "1")
    assert "MOULIN_PIN_SECOND" in run("serve").err


def test_a_server_takes_settings_of_the_lake_from_the_file_that_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init")
    (tmp_path / "lake" / "moulin.toml").write_text("pin_seconds = 5\nhistory_keep = 100\n[serve]\nthreads = 1\n")
    file = tmp_path / "other.toml"
    file.write_text("pin_seconds = 7\ntable_grace = 8\nview_grace = 9\n[serve]\nthreads = 3\n")
    monkeypatch.setenv("MOULIN_VIEW_GRACE", "1")
    monkeypatch.setenv("MOULIN_PORT", "tcp://10.96.0.12:8181")
    seen: list[tuple[int, Config]] = []

    def stop_at_once(serving: Serving) -> bool:
        seen.append((serving.grpc.site.serve.threads, serving.grpc.site.catalog.config))
        return serving.stop()

    monkeypatch.setattr("moulin.meta.server.serve.run_until_signal", stop_at_once)
    done = run("serve", "--bind", "127.0.0.1:0", "--http-bind", "127.0.0.1:0", "--config", str(file))
    assert done.code == 0, done.err
    [(threads, found)] = seen
    assert threads == 3
    assert (found.pin_seconds, found.table_grace, found.view_grace, found.history_keep) == (7, 8, 1, 100)


@pytest.mark.parametrize("words", [["serve"], ["access", "list"]])
def test_a_named_file_with_a_table_that_means_nothing_is_refused(run: Run, tmp_path: Path, words: list[str]) -> None:
    run("init")
    file = tmp_path / "other.toml"
    file.write_text("[storage]\nregion = 'eu'\n")
    done = run(*words, "--config", str(file))
    assert (done.code, "Unknown table [storage] in" in done.err) == (1, True), done.err
