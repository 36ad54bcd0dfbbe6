"""Scans of files that are known by name. Referee: Spark's own reader, which lists them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from moulin.pipeline.read.files import scan_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = StructType([StructField("id", LongType())])
NUMBER = StructType([StructField("_moulin_segment", LongType())])


@pytest.fixture(params=["data", "a b", "50%20", "été#1", "a+b=c"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Five files of different sizes, each alone in the folder of its number."""
    path = tmp_path / request.param
    for number in range(5):
        file = _file(path, number)
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": pa.array(range(number * 100, number * 101 + 1), pa.int64())}), file)
    return path


def _file(folder: Path, number: int) -> Path:
    return folder / f"_moulin_segment={number}" / "0a.parquet"


def _scan(spark: SparkSession, folder: Path, *numbers: int) -> DataFrame:
    return scan_files(spark, str(folder), [str(_file(folder, number)) for number in numbers], COLUMNS, NUMBER)


def test_a_scan_shows_what_a_listing_shows(folder: Path, spark: SparkSession) -> None:
    shown = "id", "_moulin_segment", "_metadata.file_path", "_metadata.file_size", "_metadata.file_modification_time"
    files = [f"file:{_file(folder, number)}" for number in (1, 3, 4)]
    reader = spark.read.option("basePath", f"file:{folder}").option("__globPaths__", "false")
    listed = reader.schema(StructType([*COLUMNS, *NUMBER])).parquet(*files)
    found = _scan(spark, folder, 1, 3, 4)
    assert found.schema == listed.schema
    assert sorted(found.inputFiles()) == sorted(listed.inputFiles())
    assert sorted(found.select(*shown).collect()) == sorted(listed.select(*shown).collect())
    assert found.where("_moulin_segment = 3 and id > 301").count() == 2


def test_scans_are_the_same_when_their_files_are(folder: Path, spark: SparkSession) -> None:
    one, other, again = (_scan(spark, folder, *numbers) for numbers in ((1, 2), (1, 3), (1, 2)))
    assert one.sameSemantics(again)
    assert not one.sameSemantics(other)
    one.cache()
    try:
        assert other.selectExpr("max(id)").first() == (303,)
        assert one.union(other).count() == 2 * 2 + 3 + 4
    finally:
        one.unpersist()


def test_a_missing_file_is_found_before_anything_is_read(folder: Path, spark: SparkSession) -> None:
    _file(folder, 2).unlink()
    with pytest.raises(FileNotFoundError):
        _scan(spark, folder, 1, 2)
