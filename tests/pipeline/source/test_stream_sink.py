"""`writeStream.format("moulin")` from files and from a topic, killed and started anew; and by declarative pipelines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table
from tests.pipeline import feeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]
Ids = Callable[[Any], list[int]]


def write(path: Path, first: int, count: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write("".join(json.dumps({"id": n, "amount": n / 2}) + "\n" for n in range(first, first + count)))


def test_a_checkpoint_older_than_the_last_commit_repeats_nothing(
    lake: Lake, spark: SparkSession, tmp_path: Path, ids: Ids
) -> None:
    """As after a restore of the checkpoint from before the last batch, or a death between the two commits."""
    table = lake.create_table("shop.t", [("id", "long"), ("amount", "double")])
    inbox, checkpoint, older = tmp_path / "inbox", tmp_path / "checkpoint", tmp_path / "older"
    write(inbox / "0.json", 0, 10)
    write(inbox / "1.json", 10, 10)

    def run() -> None:
        query = feeds.start(feeds.files(spark, inbox), lake.uri, "shop.t", checkpoint, availableNow=True)
        query.awaitTermination()

    run()
    shutil.copytree(checkpoint, older)
    write(inbox / "2.json", 20, 10)
    run()
    assert ids(table) == list(range(30))
    version = lake.version
    shutil.rmtree(checkpoint)
    older.rename(checkpoint)
    run()
    assert (lake.version, ids(table)) == (version, list(range(30)))
    write(inbox / "3.json", 30, 10)
    run()
    assert ids(table) == list(range(40))


@pytest.mark.crash
@pytest.mark.long
def test_streams_that_are_killed_lose_and_double_nothing(tmp_path: Path, spark: SparkSession) -> None:
    columns = [("id", "long", False), ("amount", "double")]
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        event = lake.create_table("shop.from_files", columns)
        keyed = lake.create_table("shop.from_topic", columns, primary_key=["id"])
        for n in range(12):
            write(tmp_path / "files" / f"{n:02}.json", 10 * n, 10)
        for partition in range(2):
            write(tmp_path / "topic" / f"{partition}.log", 1000 * partition, 200)
        _kill_when(tmp_path, lambda: _batches(event) >= 1 and _batches(keyed) >= 1)
        assert event.scan().count() < 120 or keyed.scan().count() < 400, "killed half-way"
        write(tmp_path / "files" / "99.json", 120, 10)
        write(tmp_path / "topic" / "1.log", 1200, 50)
        queries = [
            feeds.start(
                feeds.files(spark, tmp_path / "files", 100), lake.uri, event.name, tmp_path / "files-checkpoint"
            ),
            feeds.start(
                feeds.topic(spark, tmp_path / "topic", 1000), lake.uri, keyed.name, tmp_path / "topic-checkpoint"
            ),
        ]
        try:
            for query in queries:
                query.processAllAvailable()
        finally:
            for query in queries:
                query.stop()
        assert sorted(event.scan().to_arrow()["id"].to_pylist()) == list(range(130))
        expected = [*range(200), *range(1000, 1250)]
        assert sorted(keyed.scan().to_arrow()["id"].to_pylist()) == expected
        assert sum(int(info.summary.get("added-records", 0)) for info in keyed.history()) == len(expected)


def _batches(table: Table) -> int:
    return sum("batch-id" in info.summary for info in table.history())


def _kill_when(root: Path, is_so: Callable[[], bool]) -> None:
    command = [sys.executable, str(Path(feeds.__file__)), str(root)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        end = time.monotonic() + 400
        try:
            while not is_so():
                assert process.poll() is None, "the streams ended"
                assert time.monotonic() < end, "nothing came in"
                time.sleep(0.02)
        finally:
            process.kill()


@pytest.mark.long
def test_a_table_is_a_sink_of_declarative_pipelines(tmp_path: Path, spark: SparkSession) -> None:
    """The example, run by `spark-pipelines`, twice."""
    from moulin.pipeline.java import java_home

    shutil.copytree(ROOT / "examples" / "pipeline", tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yaml"
    spec.write_text(spec.read_text().replace("file:///tmp/moulin-pipeline", (tmp_path / "storage").as_uri()))
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "MOULIN_LAKE": str(tmp_path / "lake"),
        "INBOX": str(inbox),
    }
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long"), ("amount", "double")])
        for number in range(2):
            (inbox / f"{number}.csv").write_text(f"id,amount\n{number},1.5\n{number + 10},-1\n")
            program = Path(sys.executable).parent / "spark-pipelines"
            done = subprocess.run(
                [str(program), "run", "--spec", str(spec)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=400,
                cwd=tmp_path,
                check=False,
            )
            assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
            assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(number + 1))
