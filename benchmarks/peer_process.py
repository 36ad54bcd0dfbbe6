"""The process of a peer: a table format, and plain Parquet, on the Spark of its environment.

Run as a script it answers each line of its input. It needs PySpark alone; the format comes from Maven Central. Each
format is set up as its own users would: Delta with deletion vectors, Iceberg of format 3 with merge-on-read, Paimon
with a primary key and deletion vectors.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "@peer "  # before answers, as Spark's launcher prints, too

_SETTINGS = {
    "Delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "Iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
    "Paimon": {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
    },
}
_PROPERTIES = {
    "Delta": "'delta.enableDeletionVectors' = 'true'",
    "Iceberg": (
        "'format-version'='3', 'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read', "
        "'write.merge.mode'='merge-on-read'"
    ),
    "Paimon": "'primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true', 'file.format' = 'parquet'",
}
MERGE = (
    "merge into {t} as t using changed_rows as s on t.id = s.id when matched then update set * "
    "when not matched then insert *"
)
DELETE = "delete from {t} where user < {few}"
UPDATE = "update {t} set amount = amount + 1 where user >= {few} and user < 2 * {few}"
AGGREGATE = "select region, count(*), sum(amount) from {t} group by region"
SUMMARY = "select count(*), sum(id), sum(cast(round(amount * 100) as bigint)) from {t}"
_STEPS: dict[str, dict[str, list[str]]] = {
    "Delta": {"upsert": [MERGE], "delete": [DELETE], "update": [UPDATE], "compact": ["optimize {t}"]},
    "Iceberg": {
        "upsert": [MERGE],
        "delete": [DELETE],
        "update": [UPDATE],
        "compact": ["call lake.system.rewrite_data_files(table => 'bench.t', options => map('rewrite-all', 'true'))"],
    },
    "Paimon": {
        "upsert": ["insert into {t} select * from changed_rows"],
        "delete": [DELETE],
        "update": [UPDATE],
        "compact": ["call lake.sys.compact(table => 'bench.t')"],
    },
}


class Plain:
    """Rows in plain Parquet files: what changes them writes all of them again."""

    def __init__(self, spark: Any, folder: Path, few: int) -> None:
        self._spark, self._folder, self._few, self._version = spark, folder, few, 0

    def load(self, events: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._version = 0
        self._write(f"select * from parquet.`{events}`")

    def step(self, name: str) -> None:
        rows, few = f"parquet.`{self._folder / str(self._version)}`", self._few
        if name == "aggregate":
            self._spark.sql(AGGREGATE.replace("{t}", rows)).collect()
            return
        changed = f"case when user >= {few} and user < {2 * few} then amount + 1 else amount end as amount"
        text = {
            "upsert": f"select * from {rows} as t left anti join changed_rows as s on t.id = s.id "
            "union all select * from changed_rows",
            "delete": f"select * from {rows} where user >= {few}",
            "update": f"select id, ts, region, user, {changed}, note from {rows}",
            "compact": f"select * from {rows}",
        }[name]
        self._write(text)

    def summary(self) -> list[Any]:
        return list(self._spark.sql(SUMMARY.replace("{t}", f"parquet.`{self._folder / str(self._version)}`")).first())

    def _write(self, text: str) -> None:
        self._version += 1
        target = self._folder / str(self._version)
        self._spark.sql(text).write.option("compression", "zstd").parquet(str(target))
        shutil.rmtree(self._folder / str(self._version - 1), ignore_errors=True)


class Served:
    """One format, with its table, and plain Parquet on the same Spark."""

    def __init__(self, name: str, package: str, jars: Path, folder: Path, memory: str) -> None:
        from pyspark.sql import SparkSession

        builder: Any = SparkSession.builder.master("local[*]")
        partitions = str(2 * (os.cpu_count() or 1))
        settings = {
            **_SETTINGS[name],
            "spark.jars.packages": package,
            "spark.jars.ivy": str(jars),
            "spark.driver.memory": memory,
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": partitions,  # as in a session of ours
        }
        if name == "Delta":
            settings["spark.databricks.delta.snapshotPartitions"] = partitions
        else:
            settings["spark.sql.catalog.lake.warehouse"] = str(folder / "warehouse")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._name, self._folder, self._spark = name, folder, builder.getOrCreate()
        self._table = f"delta.`{folder / 'table'}`" if name == "Delta" else "lake.bench.t"
        self._first: Any = 0
        self._few = 0
        self._plain = Plain(self._spark, folder / "plain", 0)
        if name != "Delta":
            self._spark.sql("create database if not exists lake.bench")

    def start(self) -> list[Any]:
        return [self._spark.version]

    def load(self, events: str, changed: str, few: str = "0") -> list[Any]:
        """Make the table again, from Parquet files."""
        self._few = int(few)
        self._spark.read.parquet(changed).createOrReplaceTempView("changed_rows")
        self.drop()
        properties = f"tblproperties ({_PROPERTIES[self._name]})"
        rows = f"select * from parquet.`{events}`"
        if self._name == "Paimon":
            columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self._schema(events))
            self._spark.sql(f"create table {self._table} ({columns}) using paimon {properties}")
            self._spark.sql(f"insert into {self._table} {rows}")
        else:
            self._spark.sql(f"create table {self._table} using {self._name.lower()} {properties} as {rows}")
        if self._name == "Iceberg":
            self._first = self.run("select snapshot_id from {t}.snapshots")[0]
        return []

    def drop(self) -> list[Any]:
        if self._name == "Delta":
            shutil.rmtree(self._folder / "table", ignore_errors=True)
        else:
            self._spark.sql(f"drop table if exists {self._table}{' purge' if self._name == 'Iceberg' else ''}")
        return []

    def reset(self) -> list[Any]:
        if self._name == "Delta":
            return self.run(f"restore table {{t}} to version as of {self._first}")
        return self.run(f"call lake.system.set_current_snapshot('bench.t', {self._first})")

    def run(self, text: str) -> list[Any]:
        rows = self._spark.sql(text.replace("{t}", self._table)).collect()
        return list(rows[0]) if rows else []

    def step(self, name: str) -> list[Any]:
        """Run a step of the comparison of formats."""
        if name == "aggregate":
            self._spark.sql(AGGREGATE.replace("{t}", self._table)).collect()
            return []
        for text in _STEPS[self._name][name]:
            self.run(text.replace("{few}", str(self._few)))
        return []

    def check(self) -> list[Any]:
        """Whether the format does what it was set up for: Delta's deletes made deletion vectors."""
        if self._name == "Delta":
            history = self._spark.sql(f"describe history {self._table}").collect()
            made = {
                row.operation: int((row.operationMetrics or {}).get("numDeletionVectorsAdded", 0)) for row in history
            }
            if not made.get("DELETE"):
                raise AssertionError(f"Delta made no deletion vectors: {made}")
        return []

    def vectors(self) -> list[Any]:
        """How many deletion vectors the last change wrote, of a format other than Paimon."""
        if self._name == "Delta":
            (facts,) = self._spark.sql(f"describe history {self._table} limit 1").select("operationMetrics").first()
            return [sum(int(value) for name, value in facts.items() if name.endswith("DeletionVectorsAdded"))]
        (facts,) = self.run("select summary from {t}.snapshots order by committed_at desc limit 1")
        return [int(facts.get("added-dvs", 0))]

    def size(self) -> list[Any]:
        """Bytes of all files of the table."""
        return [folder_size(self._folder / ("table" if self._name == "Delta" else "warehouse"))]

    def plain_load(self, events: str, changed: str, few: str) -> list[Any]:
        self._spark.read.parquet(changed).createOrReplaceTempView("changed_rows")
        self._plain = Plain(self._spark, self._folder / "plain", int(few))
        self._plain.load(events)
        return []

    def plain_step(self, name: str) -> list[Any]:
        self._plain.step(name)
        return []

    def plain_summary(self) -> list[Any]:
        return self._plain.summary()

    def summary(self) -> list[Any]:
        return self.run(SUMMARY)

    def _schema(self, events: str) -> Any:
        return self._spark.read.parquet(events).schema


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _serve(name: str, package: str, jars: Path, folder: Path, memory: str) -> None:
    """Answer each line of the input by a line."""
    served: Served | None = None
    for line in sys.stdin:
        verb, *words = json.loads(line)
        try:
            served = served or Served(name, package, jars, folder, memory)
            call: Callable[..., list[Any]] = getattr(served, verb)
            answer: dict[str, Any] = {"row": call(*words)}
        except Exception as error:  # noqa: BLE001 - shown by the process that asked
            answer = {"error": " ".join(str(error).split())[:300]}
        sys.stdout.write(f"{MARK}{json.dumps(answer, default=str)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
