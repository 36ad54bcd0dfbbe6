"""The Spark session: reuses a running one, else starts one with settings for a lake.

Settings of the caller take precedence. MOULIN_SPARK_MEMORY sets the memory of the driver (2g when unset).
"""

# Decisions: docs/decisions/0165, docs/decisions/0229

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import moulin
from moulin.config import safe_environment as safe_environment
from moulin.errors import FailedPrecondition
from moulin.pipeline.java import class_cache_options, java_home

REQUIRED: Mapping[str, str] = {
    # Columns are found by field id, so that renamed ones are read right.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # A list of 2,000 files is planned in 0.4 s instead of 6 s: no Spark job is run just to list them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Nanosecond timestamps are read as longs where no schema is given; Spark refuses such files otherwise.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.timeType.enabled": "true",
}
"""Needed to read and write a lake; set on every session, also on one that was started elsewhere."""

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # The default is INT96, which has no bounds in the footer.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Batches are bounded by rows alone: with a bound on bytes Spark measures every vector after every row, which takes
    # three times as long as handing the rows over.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.python.worker.reuse": "true",
    # Workers keep the memory of a task for the next one, for as long as Spark keeps idle workers (in milliseconds):
    # given back and allocated again, it costs a compaction up to a third of its time.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "60000",
}
"""Good for a lake, but a matter of taste: set on sessions that are started here."""

_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_shipped: set[str] = set()


def spark_session(
    *,
    master: str | None = None,
    app_name: str = "moulin",
    conf: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session of this process, or a new one on `master` (`local[*]` when not given).

    A new one has the variables of `environment`, by default this process's. A running session is kept, and made fit for
    a lake as `adopt` does. Raises FailedPrecondition if it runs on another
    master than the one asked for, or if a setting of `conf` can only be given at the start.
    """
    if SparkContext._active_spark_context is None:
        return start_session(master or "local[*]", app_name, conf or {}, class_cache_options(), environment)
    spark = plain(SparkSession.getActiveSession() or SparkSession.builder.getOrCreate())
    if master is not None and master != spark.sparkContext.master:
        raise FailedPrecondition(
            f"Spark already runs on {spark.sparkContext.master}, not on {master}: stop that session first."
        )
    return adopt(spark, conf)


def plain(spark: SparkSession) -> SparkSession:
    """Spark's own session, where one is given that a lake is attached to."""
    found: SparkSession = getattr(spark, "_moulin_plain", spark)
    return found


def adopt(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Makes a running session fit for a lake: the settings it needs, those of `conf`, and the package on a cluster.

    Raises FailedPrecondition, with nothing changed, when a setting of `conf` can only be given at the start.
    """
    spark = plain(spark)
    for key, value in (conf or {}).items():
        if not spark.conf.isModifiable(key) and spark.conf.get(key, None) != value:
            raise FailedPrecondition(f"The setting {key} cannot change while Spark runs: stop the session first.")
    for key, value in {**REQUIRED, **(conf or {})}.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    if not is_local(spark.sparkContext.master or ""):
        ship_package(spark)
    attend_threads(spark)
    return spark


def start_session(
    master: str,
    app_name: str,
    conf: Mapping[str, str],
    jvm_options: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> SparkSession:
    """A new session. REQUIRES: none is running in this process. Raises FailedPrecondition when Spark does not start."""
    settings = {**_settings(master), **conf, "spark.master": master, "spark.app.name": app_name}
    options = [f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}", *jvm_options]
    settings[_JVM_OPTIONS] = " ".join([*map(_quoted, options), conf.get(_JVM_OPTIONS, "")]).strip()
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _environment(environment):
        try:
            spark = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            reason = " ".join(str(error).partition("\n\tat ")[0].split())
            raise FailedPrecondition(f"Spark did not start on {master}; see its output too: {reason}") from error
    if not is_local(master):
        ship_package(spark)
    attend_threads(spark)
    return spark


def attend_threads(spark: SparkSession) -> None:
    """From now on, every thread of this process has an active session from its first call of Spark on.

    Spark looks for Python data sources in the active session of the thread alone, and a thread has none unless it made
    the session: `frame.write.format("moulin")` would not be found there. Each Python thread has a connection to the JVM
    and a Java thread of its own; the new connection is the moment to set what `SparkSession.active` falls back to.
    """
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    jvm: Any = spark._jvm
    sessions, connect = jvm.org.apache.spark.sql.classic.SparkSession, getattr(client, "_create_new_connection", None)
    activate(spark)
    if connect is None or getattr(connect, "attends", False):  # all threads share a Java thread, or it was done before
        return

    def connected() -> Any:
        connection = connect()
        with suppress(Py4JError, OSError):
            default = sessions.getDefaultSession()
            if default.isDefined():
                sessions.setActiveSession(default.get())
        with suppress(ValueError):
            client.deque.remove(connection)  # it was given back after these calls, and will be once more by the caller
        return connection

    connected.attends = True  # type: ignore[attr-defined]
    client._create_new_connection = connected


def activate(spark: SparkSession) -> None:
    """Make the session active in this thread if none is."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    if sessions.getActiveSession().isEmpty():
        sessions.setActiveSession(spark._jsparkSession)


def frame_of(spark: SparkSession, rows: pa.Table | list[Any], columns: StructType) -> DataFrame:
    """Rows as a DataFrame. PySpark makes the session of it the active one: the one that was active stays so."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before, active = SparkSession._activeSession, sessions.getActiveSession()
    try:
        return spark.createDataFrame(rows, columns)
    finally:
        SparkSession._activeSession = before
        if active.isDefined():
            sessions.setActiveSession(active.get())


def is_local(master: str) -> bool:
    """Whether tasks run inside the driver's own process and its Python workers."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def ship_package(spark: SparkSession) -> None:
    """Makes this very package importable in the tasks of a cluster. Its dependencies must be installed there.

    Does nothing when it was done before for this application.
    """
    context = spark.sparkContext
    if context.applicationId in _shipped:
        return
    root = Path(moulin.__file__).parent
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    source = importlib.util.find_spec("pyspark_moulin")
    archive = _scratch_folder() / "moulin.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for path in files:
            package.write(path, path.relative_to(root.parent))
        if source is not None and source.origin is not None:
            package.write(source.origin, "pyspark_moulin.py")
    context.addPyFile(str(archive))
    _shipped.add(context.applicationId)


def _settings(master: str) -> dict[str, str]:
    settings = {
        **REQUIRED,
        **DEFAULTS,
        "spark.driver.memory": os.environ.get("MOULIN_SPARK_MEMORY", "2g"),
        "spark.sql.warehouse.dir": (_scratch_folder() / "warehouse").as_uri(),
    }
    if is_local(master):
        settings["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
        # Else a task that runs out of memory ends the JVM, and with it everybody's queries.
        settings["spark.executor.killOnFatalError.depth"] = "0"
    if is_local(master) or urlsplit(master).hostname in ("127.0.0.1", "localhost"):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _cores(master: str) -> int:
    number = re.match(r"local\[(\d+)", master)
    if number is not None:
        return int(number[1])
    return 1 if master == "local" else os.cpu_count() or 1


@contextmanager
def _environment(chosen: Mapping[str, str] | None) -> Iterator[None]:
    """The environment that Spark's launcher and its children get, for as long as it takes to start."""
    before = dict(os.environ)
    hidden = set() if chosen is None else before.keys() - chosen.keys()
    for name in hidden:
        del os.environ[name]
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # The launcher is a JVM of its own that lives for half a second: it is not worth a compiler or a collector.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    try:
        yield
    finally:
        for name in {"JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LAUNCHER_OPTS", *hidden}:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _quoted(option: str) -> str:
    """For the parser of Spark's launcher, which knows double quotes and backslashes as a shell does."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if re.search(r"[\s\"'\\]", option) else option


def _scratch_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="moulin-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
