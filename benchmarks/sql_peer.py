"""Delta Lake or Iceberg on the Spark that it supports, in a process of its own that takes statements line by line.

`Peer` starts it from the process of the benchmarks; run as a script, this file is that process. It needs PySpark alone:
the rest comes from Maven Central.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPARK = "pyspark==4.1.*"  # the newest that both have a release for
PACKAGES = {
    "Delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "Iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
_MARK = "@peer "  # before answers, as Spark's launcher prints, too
_EXTENSIONS = {
    "Delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "Iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
    },
}
_DELTA = "'delta.enableDeletionVectors' = 'true'"
_ICEBERG = (
    "'format-version'='3', 'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read'"
)


class Unreachable(Exception):
    """The peer cannot be had; the message is the reason."""


class Peer:
    """One peer, with a table of the events and a temporary view `changed_rows`."""

    def __init__(
        self, name: str, python: Path, jars: Path, folder: Path, events: Path, changed: Path, memory: str
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK_"))}
        self._process = subprocess.Popen(
            [str(python), __file__, name, str(jars), str(folder), memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=outside,
            cwd=folder,
        )
        try:
            self._ask("load", str(events), str(changed))
        except Unreachable:
            self.close()
            raise

    def reset(self) -> None:
        """Let the table be as it was loaded."""
        self._ask("reset")

    def run(self, text: str) -> list[Any]:
        """The first row of a statement's answer; {t} is the table."""
        return self._ask("run", text)

    def vectors(self) -> int:
        """How many deletion vectors its last change wrote."""
        return int(self._ask("vectors")[0])

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, *words: str) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Unreachable("its process ended") from None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                answer = json.loads(line.removeprefix(_MARK))
                if "error" in answer:
                    raise Unreachable(answer["error"])
                row: list[Any] = answer["row"]
                return row
        raise Unreachable("its process ended: Maven Central may be out of reach")


def make_python(folder: Path) -> Path:
    """The Python of an environment with the Spark of the peers, made when it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", SPARK], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unreachable(f"{SPARK} cannot be installed: {done.stderr.strip()[-200:]}")
    return python


def _serve(name: str, jars: Path, folder: Path, memory: str) -> None:
    """Answer each line of the input by a line."""
    served: _Served | None = None
    for line in sys.stdin:
        verb, *words = json.loads(line)
        try:
            served = served or _Served(name, jars, folder, memory)
            call: Callable[..., list[Any]] = getattr(served, verb)
            answer: dict[str, Any] = {"row": call(*words)}
        except Exception as error:  # noqa: BLE001 - shown by the process that asked
            answer = {"error": " ".join(str(error).split())[:300]}
        sys.stdout.write(f"{_MARK}{json.dumps(answer, default=str)}\n")
        sys.stdout.flush()


class _Served:
    """The table of one peer."""

    def __init__(self, name: str, jars: Path, folder: Path, memory: str) -> None:
        from pyspark.sql import SparkSession

        builder: Any = SparkSession.builder.master("local[*]")
        partitions = str(2 * (os.cpu_count() or 1))
        settings = {
            **_EXTENSIONS[name],
            "spark.jars.packages": PACKAGES[name],
            "spark.jars.ivy": str(jars),
            "spark.driver.memory": memory,
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": partitions,  # as in a session of ours
        }
        if name == "Delta":
            settings["spark.databricks.delta.snapshotPartitions"] = partitions
        if name == "Iceberg":
            settings["spark.sql.catalog.ice.warehouse"] = str(folder / "warehouse")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._is_delta, self._spark = name == "Delta", builder.getOrCreate()
        self._table = f"delta.`{folder / 'table'}`" if self._is_delta else "ice.bench.changed"
        self._first: Any = 0

    def load(self, events: str, changed: str) -> list[Any]:
        self._spark.read.parquet(changed).createOrReplaceTempView("changed_rows")
        kind = "delta" if self._is_delta else "iceberg"
        properties = f"tblproperties ({_DELTA if self._is_delta else _ICEBERG})"
        self._spark.sql(f"create table {self._table} using {kind} {properties} as select * from parquet.`{events}`")
        if not self._is_delta:
            self._first = self.run("select snapshot_id from {t}.snapshots")[0]
        return []

    def reset(self) -> list[Any]:
        if self._is_delta:
            return self.run(f"restore table {{t}} to version as of {self._first}")
        return self.run(f"call ice.system.set_current_snapshot('bench.changed', {self._first})")

    def vectors(self) -> list[Any]:
        """How many deletion vectors the last change wrote."""
        if self._is_delta:
            (facts,) = self._spark.sql(f"describe history {self._table} limit 1").select("operationMetrics").first()
            return [sum(int(value) for name, value in facts.items() if name.endswith("DeletionVectorsAdded"))]
        (facts,) = self.run("select summary from {t}.snapshots order by committed_at desc limit 1")
        return [int(facts.get("added-dvs", 0))]

    def run(self, text: str) -> list[Any]:
        rows = self._spark.sql(text.replace("{t}", self._table)).collect()
        return list(rows[0]) if rows else []


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
