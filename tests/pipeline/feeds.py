"""Streams into tables, as a process of its own that a test may kill: files of a folder, and a topic with partitions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # workers cannot import it

COLUMNS = "id bigint, amount double"


@dataclass
class _Range(InputPartition):
    partition: str
    first: int
    last: int


class Topic(DataSource):
    """Shaped like Kafka: partitions that only grow, `<path>/<partition>.log`, an offset in each; a line is a record."""

    @classmethod
    def name(cls) -> str:
        return "topic"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _TopicReader(Path(self.options["path"]), int(self.options["at_once"]))


class _TopicReader(DataSourceStreamReader):
    def __init__(self, folder: Path, at_once: int) -> None:
        self._folder, self._at_once = folder, at_once
        self._planned: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {file.stem: 0 for file in sorted(self._folder.glob("*.log"))}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - Spark's name
        for file in sorted(self._folder.glob("*.log")):
            lines = len(file.read_text().splitlines())
            self._planned[file.stem] = min(lines, self._planned.get(file.stem, 0) + self._at_once)
        return dict(self._planned)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._planned = {**self._planned, **{name: max(last, self._planned.get(name, 0)) for name, last in end.items()}}
        return [_Range(name, start.get(name, 0), last) for name, last in end.items() if last > start.get(name, 0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, float]]:
        assert isinstance(partition, _Range)
        lines = (self._folder / f"{partition.partition}.log").read_text().splitlines()
        for line in lines[partition.first : partition.last]:
            record = json.loads(line)
            yield record["id"], record["amount"]


def files(spark: SparkSession, folder: Path, at_once: int = 1) -> DataFrame:
    """At most so many files in each batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", str(at_once)).json(str(folder))


def topic(spark: SparkSession, folder: Path, at_once: int = 20) -> DataFrame:
    """At most so many records of each partition in each batch."""
    spark.dataSource.register(Topic)
    return spark.readStream.format("topic").option("at_once", str(at_once)).load(str(folder))


def start(frame: DataFrame, lake: str, table: str, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("moulin").option("lake", lake).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start(table)


def main(root: Path) -> None:
    """Both streams at once, until killed."""
    from moulin.pipeline.session import spark_session

    spark = spark_session(master="local[2]")
    lake = str(root / "lake")
    queries = [
        start(files(spark, root / "files"), lake, "shop.from_files", root / "files-checkpoint"),
        start(topic(spark, root / "topic"), lake, "shop.from_topic", root / "topic-checkpoint"),
    ]
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
