"""A real cluster on loopback: a master, two workers with an executor each, and a driver that ships the package."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import moulin
from moulin.pipeline.java import java_home

pytestmark = pytest.mark.cluster

DRIVER = """
import json, sys, time
import moulin
from moulin.pipeline.write import writer

writer.HELD_BYTES = 0  # every task writes its rows, however few
folder, master = sys.argv[1:]
lake = moulin.connect(folder, spark=master, merge_local_bytes=1)
lake.create_database("shop")
orders = lake.create_table("shop.orders", [("id", "long"), ("amount", "double")], sort_by=["id"])
spark = lake.spark()
executors = lambda: spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
for _ in range(300):
    if executors() == 2:
        break
    time.sleep(0.1)
found = {"executors": executors()}
frame = spark.range(0, 20000, 1, 4).selectExpr("id", "cast(id as double) / 2 as amount")
found["added"] = orders.append(frame).rows_added
found["deleted"] = orders.delete_where("id >= 15000 and id < 15010").rows_deleted
query = "select count(*) n, sum(amount) s from shop.orders"
found["before"] = list(lake.sql(query).first())
done = orders.compact(everything=True)
found["merged"] = [done.segments_in, done.segments_out]
found["after"] = list(lake.sql(query).first())
from moulin.ingest.setup import set_up
from moulin.pipeline.nursery.nursery import Nursery
from tests.pipeline.nursery.test_nursery import Writer, logs
writer = Writer(lake, set_up(lake).token)
bodies = lambda **options: sorted(r.body for r in lake.sql("select body from otel.logs", **options).collect())
writer.send(logs("a"))
Nursery(lake, spark=False).run_once()
writer.send(logs("b"))
found["fresh"] = [bodies(), bodies(fresh=False)]
def where(batches):
    import moulin, os
    import pyarrow as pa
    list(batches)
    yield pa.RecordBatch.from_pydict({"file": [moulin.__file__]})
found["package"] = [r.file for r in spark.range(0, 2, 1, 2).mapInArrow(where, "file string").collect()]
print("FOUND " + json.dumps(found))
lake.close()
spark.stop()
"""


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each. Ends all processes that it started."""
    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java_home()),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, role: str, *arguments: str) -> None:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "-h", "127.0.0.1"]
        command += ["--webui-port", "0", *arguments]
        with (folder / f"{name}.log").open("wb") as log:
            started.append(subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log))

    try:
        start("master", "master.Master", "-p", str(port))
        wait_for(port, started[0], folder / "master.log")
        for number in (1, 2):
            start(
                f"worker-{number}", "worker.Worker", "-c", "1", "-m", "1100m", "-d", str(folder / f"w{number}"), address
            )
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"The master did not start:\n{log.read_text()[-2000:]}")


@pytest.mark.long
def test_append_delete_compact_and_query_on_a_cluster(tmp_path: Path) -> None:
    root = Path(moulin.__file__).parent.parent
    with cluster(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, str(tmp_path / "lake"), address],
            env=os.environ | {"PYTHONPATH": str(root), "MOULIN_SPARK_MEMORY": "512m"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    report = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    assert report is not None, done.stderr[-3000:]
    found = json.loads(report.removeprefix("FOUND "))
    assert found["executors"] == 2
    assert (found["added"], found["deleted"]) == (20000, 10)
    total = sum(range(20000)) / 2 - sum(range(15000, 15010)) / 2
    assert found["before"] == found["after"] == [19990, total]
    assert found["merged"] == [4, 1]
    assert found["fresh"] == [["a", "b"], ["a"]]
    assert all(str(root) not in file for file in found["package"]), "executors use the package that was shipped"
