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
from tests.pipeline.test_nursery import Writer, bodies, logs


def _run(folder: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["--lake", str(folder), *words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output) if done.output.strip() else None


def test_from_objects_to_merged_segments(tmp_path: Path) -> None:
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
        assert _run(folder, "janitor", "--once")["planned merges"] == 1
        assert _run(folder, "worker", "--once")["segments_in"] == 4
        assert _run(folder, "worker", "--once") is None
        assert lake.table("otel.logs").stats().segments == 1
        assert bodies(lake) == Counter(f"r{number}" for number in range(4))
