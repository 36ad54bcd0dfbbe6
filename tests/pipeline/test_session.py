from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from moulin.errors import FailedPrecondition
from moulin.pipeline.session import REQUIRED, adopt, is_local, spark_session

pytestmark = pytest.mark.spark

FRESH = """
import json, os, sys, zipfile
before = dict(os.environ)
from moulin.pipeline.session import spark_session, ship_package, start_session
words = 'two words "quoted" it\\'s a\\\\b'
conf = {"spark.driver.extraJavaOptions": "-Dgiven=yes", "spark.sql.timeType.enabled": "false"}
spark = start_session("local[3,2]", "fresh", conf, ["-Dwords=" + words])
jvm = spark.sparkContext._jvm
spark.sql("create table kept (a int) using parquet")
ship_package(spark)
ship_package(spark)

def where(batches):
    import moulin.errors
    import pyarrow as pa
    yield pa.record_batch({"file": [moulin.errors.__file__]})

print(json.dumps({
    "environment": {k: os.environ[k] for k in ("JAVA_HOME", "PYSPARK_PYTHON") if k in os.environ},
    "before": {k: before[k] for k in ("JAVA_HOME", "PYSPARK_PYTHON") if k in before},
    "words": jvm.System.getProperty("words") == words,
    "given": jvm.System.getProperty("given"),
    "memory": jvm.Runtime.getRuntime().maxMemory(),
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "time_type": spark.conf.get("spark.sql.timeType.enabled"),
    "host": spark.conf.get("spark.driver.host"),
    "shipped": spark.range(1).mapInArrow(where, "file string").first()[0],
    "again": spark_session() is spark,
}))
"""


@pytest.fixture
def unchanged(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with what a test sets taken back after it."""
    before = {key: spark.conf.get(key) for key in [*REQUIRED, "spark.sql.shuffle.partitions"]}
    yield spark
    for key, value in before.items():
        spark.conf.set(key, str(value))


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    variables = {**os.environ, "PYTHONPATH": root, **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=240)


def test_the_running_session_is_taken(unchanged: SparkSession) -> None:
    assert spark_session() is unchanged
    assert spark_session(master="local[2]") is unchanged


def test_a_session_that_was_started_elsewhere_gets_what_a_lake_needs(unchanged: SparkSession) -> None:
    for key in REQUIRED:
        unchanged.conf.unset(key)
    assert unchanged.conf.get("spark.sql.parquet.fieldId.read.enabled") == "false"
    spark_session(conf={"spark.sql.shuffle.partitions": "3", "spark.sql.timeType.enabled": "false"})
    wanted = {**REQUIRED, "spark.sql.shuffle.partitions": "3", "spark.sql.timeType.enabled": "false"}
    assert {key: unchanged.conf.get(key) for key in wanted} == wanted


def test_another_master_is_refused(spark: SparkSession) -> None:
    with pytest.raises(FailedPrecondition, match=r"runs on local\[2\], not on spark://host:7077"):
        spark_session(master="spark://host:7077")


def test_a_setting_of_the_start_is_refused_later(unchanged: SparkSession) -> None:
    with pytest.raises(FailedPrecondition, match="spark.driver.memory cannot change"):
        adopt(unchanged, {"spark.sql.shuffle.partitions": "7", "spark.driver.memory": "9g"})
    assert unchanged.conf.get("spark.sql.shuffle.partitions") == "2", "nothing of it was applied"
    adopt(unchanged, {"spark.driver.memory": str(unchanged.conf.get("spark.driver.memory"))})


def test_tasks_run_in_this_python(spark: SparkSession) -> None:
    def who(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        yield pa.record_batch({"python": [sys.executable]})

    assert {row.python for row in spark.range(2).mapInArrow(who, "python string").collect()} == {sys.executable}


def test_parquet_with_nanoseconds_and_times_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    moment = 1_700_000_000_123_456_789
    table = pa.table({"at": pa.array([moment], pa.timestamp("ns")), "time": pa.array([1], pa.time64("us"))})
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert frame.schema.simpleString() == "struct<at:bigint,time:time(6)>"
    assert frame.first()["at"] == moment  # type: ignore[index]


def test_parquet_is_written_with_zstd_and_bounds_of_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select timestamp'2024-01-01 00:00:00' as at").coalesce(1).write.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    column = pq.read_metadata(file).row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.statistics.min.isoformat() == "2024-01-01T00:00:00+00:00"


@pytest.mark.long
def test_a_fresh_session_is_quiet_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    done = python(FRESH, tmp_path, MOULIN_SPARK_MEMORY="700m", TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert told.pop("environment") == told.pop("before")
    assert Path(told.pop("shipped")).parent.parent.name == "moulin.zip"
    assert 600 << 20 < told.pop("memory") <= 700 << 20
    assert told == {
        "words": True,
        "given": "yes",
        "partitions": "6",
        "time_type": "false",
        "host": "127.0.0.1",
        "again": True,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"], "no spark-warehouse, no log"
    assert [path.name for path in (tmp_path / "temporary").glob("moulin-*")] == []


@pytest.mark.parametrize(("master", "address"), [("nonsense", "127.0.0.1"), ("local[1]", "192.0.2.1")])
def test_a_start_that_fails_is_an_error(master: str, address: str, tmp_path: Path) -> None:
    code = f"""
from moulin.errors import FailedPrecondition
from moulin.pipeline.session import spark_session
try:
    spark_session(master="{master}", conf={{"spark.driver.bindAddress": "{address}"}})
except FailedPrecondition as error:
    print(error.message)
"""
    done = python(code, tmp_path)
    (message,) = done.stdout.splitlines()
    assert message.startswith(f"Spark did not start on {master}; "), done.stderr


def test_the_package_does_not_import_pyspark(tmp_path: Path) -> None:
    """A lake is of use without Spark, and a command that needs none starts at once."""
    code = "import sys, moulin.cli.main; print({'pyspark', 'pandas'} & sys.modules.keys() or 'none')"
    done = python(code, tmp_path)
    assert done.stdout == "none\n", done.stderr


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://local:7077", False),
        ("yarn", False),
    ],
)
def test_masters_on_this_machine_are_local(master: str, local: bool) -> None:
    assert is_local(master) is local
