"""`moulin nursery`, `moulin worker` and `moulin janitor`, as processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import moulin
from moulin.cli.main import app
from moulin.ingest.setup import set_up
from tests.pipeline.nursery.test_nursery import Writer, bodies, logs


def _run(folder: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["--lake", str(folder), *words, "--json"])
    assert done.exit_code == 0, done.output
    if not done.stdout.strip():
        return None
    found = json.loads(done.stdout.splitlines()[-1]) if "event" in done.stdout else json.loads(done.stdout)
    return found["rows"] if found.keys() == {"json_version", "rows"} else found


def test_commands_take_objects_to_compacted_segments(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    with moulin.connect(folder) as lake:
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        for number in range(4):
            writer.send(logs(f"r{number}"))
            done = _run(folder, "nursery", "--once")
            assert (done["objects"], done["rows"]) == (1, 1)
        assert _run(folder, "nursery", "--once")["objects"] == 0
        assert lake.table("otel.logs").stats().segments == 4
        assert _run(folder, "janitor", "--once")["planned_merges"] == 1
        assert _run(folder, "worker", "--once")["segments_in"] == 4
        assert _run(folder, "worker", "--once") is None
        assert lake.table("otel.logs").stats().segments == 1
        assert bodies(lake) == Counter(f"r{number}" for number in range(4))


def test_what_was_set_aside_is_shown_with_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    with moulin.connect(folder) as lake:
        token = set_up(lake).token
        assert token is not None
        assert _run(folder, "ingest", "aside") == []
        writer = Writer(lake, token)
        writer.send(logs("good"), b"\xff\xff no protobuf")
        writer.put(b"no object at all")
        _run(folder, "nursery", "--once")
        assert bodies(lake) == Counter(["good"])
        rows = sorted(_run(folder, "ingest", "aside"), key=lambda row: int(row["offset"]))
        assert [(row["stream"], row["offset"]) for row in rows] == [(str(writer.id), 0), (str(writer.id), 1)]
        assert all(row["reason"] and row["version"] == lake.version for row in rows)
        assert len(_run(folder, "ingest", "aside", str(writer.id))) == 2
        [request] = _run(folder, "ingest", "aside", str(writer.id), "0")
        assert (request["payload"], request["bytes"], request["reason"]) == ("logs", 14, rows[0]["reason"])
        [whole] = _run(folder, "ingest", "aside", str(writer.id), "1")
        assert (whole["payload"], whole["bytes"]) == ("all of it", 16)
        for words in (["nonsense"], [str(writer.id), "7"]):
            done = CliRunner().invoke(app, ["--lake", str(folder), "ingest", "aside", *words])
            assert isinstance(done.exception, moulin.errors.MoulinError)
