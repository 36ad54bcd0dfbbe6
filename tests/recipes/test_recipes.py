"""The recipes under examples/recipes run, and print and store what they should."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import moulin
from moulin.ingest.setup import set_up

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "recipes"


def run(python: str, recipe: str, folder: Path, **variables: str) -> str:
    """What a recipe prints, in a lake of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [python, str(RECIPES / recipe), str(folder / "lake")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def environment_of(lock: str, folder: Path) -> str:
    """The Python of a new environment that has what a lock names."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--require-hashes", "-r", str(ROOT / "requirements" / lock)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{lock} cannot be installed: {(done.stderr.splitlines() or ['no reason'])[-1]}")
    return python


def test_pandas_takes_the_newest_row_of_a_key(tmp_path: Path) -> None:
    assert run(sys.executable, "with_pandas.py", tmp_path).splitlines()[-1] == "mean: 27.5"


def test_polars_queries_lazily(tmp_path: Path) -> None:
    assert run(sys.executable, "with_polars.py", tmp_path) == "cart 5.0\nhome 3.0\npay 9.0\n"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ibis_aggregates(tmp_path: Path) -> None:
    python = environment_of("ibis.lock", tmp_path / "venv")
    assert run(python, "with_ibis.py", tmp_path) == "eu 5.0\nus 2.0\n"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_dagster_appends_each_day_once(tmp_path: Path) -> None:
    python = environment_of("dagster.lock", tmp_path / "venv")
    told = run(python, "dagster_assets.py", tmp_path, MOULIN_LAKE=str(tmp_path / "lake"), DAGSTER_HOME="")
    assert told.splitlines()[-1] == "rows 4 total 6.0"
    with moulin.connect(tmp_path / "lake") as lake:
        assert lake.table("shop.orders").count() == 4


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A lake with a collector; the variables that SDKs read."""
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
    words = ["collect", "--grpc-port", "0", "--http-port", "0", "--json"]
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", str(tmp_path / "lake"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as collector:
        try:
            assert collector.stdout is not None
            ready = json.loads(collector.stdout.readline())
            yield (
                tmp_path,
                {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{ready['http_port']}",
                    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {token}",
                },
            )
        finally:
            collector.terminate()


def spans(folder: Path, service: str) -> dict[str, Any]:
    """The spans of a service after a nursery took them in, with their attributes, by name."""
    command = [
        sys.executable,
        "-m",
        "moulin.cli.main",
        "--lake",
        str(folder / "lake"),
        "nursery",
        "--once",
        "--no-spark",
    ]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    with moulin.connect(folder / "lake") as lake:
        rows = lake.table("otel.traces").scan(where=f"service_name = '{service}'").to_pylist()
    return {row["name"]: row for row in rows}


def check_spans(found: dict[str, Any]) -> None:
    assert set(found) == {"order", "pay"}
    assert found["pay"]["parent_span_id"] == found["order"]["span_id"]
    assert found["order"]["trace_id"] == found["pay"]["trace_id"]
    assert dict(found["order"]["attributes"])["order.id"] in ("42", 42)


def test_the_sdk_of_python_sends_spans(telemetry: tuple[Path, dict[str, str]]) -> None:
    folder, variables = telemetry
    run(sys.executable, "otel/send_python.py", folder, **variables)
    check_spans(spans(folder, "checkout"))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_sdk_of_node_sends_spans(telemetry: tuple[Path, dict[str, str]]) -> None:
    folder, variables = telemetry
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    work = folder / "node"
    shutil.copytree(RECIPES / "otel", work)
    install = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    done = subprocess.run(install, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"packages of npm cannot be installed: {(done.stderr.splitlines() or ['no reason'])[-1]}")
    environment = {**os.environ, **variables}
    sent = subprocess.run(
        [node, "send_node.js"], cwd=work, capture_output=True, text=True, check=False, env=environment
    )
    assert sent.returncode == 0, sent.stderr
    check_spans(spans(folder, "checkout-node"))


def test_the_settings_of_the_opentelemetry_collector_fit_together() -> None:
    settings = yaml.safe_load((RECIPES / "otel" / "collector.yaml").read_text())
    for pipeline in settings["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(settings[kind])
    assert set(settings["service"]["pipelines"]) == {"logs", "traces", "metrics"}
    exporter = settings["exporters"]["otlp/moulin"]
    assert exporter["endpoint"].endswith(":4317")
    assert exporter["headers"]["authorization"].startswith("Bearer ")
    assert exporter["sending_queue"]["storage"] in settings["service"]["extensions"]


def test_every_recipe_is_in_the_list() -> None:
    text = (RECIPES / "README.md").read_text()
    for file in RECIPES.rglob("*"):
        if file.suffix in (".py", ".js", ".yaml"):
            assert f"({file.relative_to(RECIPES)})" in text
