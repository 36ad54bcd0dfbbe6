"""Scans of known Parquet files: Spark gets their sizes and times, and lists no folder.

Spark looks for the files of a scan one by one, which takes 0.2 ms for each. It takes a list that is in its cache of
listings instead; the list comes as one message, as a call to the JVM for each file would take as long as looking.
"""

# Decisions: docs/decisions/0304

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

_CACHE_BYTES = 1 << 40
# Fields of Hadoop's FileStatusProto: 1 is the kind, 2 the path, 3 the size, 4 to 6 permission, owner and group, 7 and 8
# the times of change and access, 10 and 11 the number of copies and the size of blocks.
_KIND_AND_PATH = b"\x08\x02\x12"
_OWNER_AND_TIME = b"\x22\x03\x08\xa4\x03\x2a\x00\x32\x00\x38"
_TIME_AND_BLOCKS = b"\x40\x00\x50\x01\x58\x80\x80\x80\x10"
_STATUS = "org.apache.hadoop.fs.FileStatus"
_NO_TIME_LIMIT = -1


def scan_files(
    spark: SparkSession, base: str, files: Sequence[str], columns: StructType, partitions: StructType
) -> DataFrame:
    """The rows of files at local paths below `base`. Columns of `partitions` come from the names of their folders.

    Raises FileNotFoundError when a file is missing.
    """
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    sources = jvm.org.apache.spark.sql.execution.datasources
    hadoop = jvm.org.apache.hadoop
    # Spark takes two lists of files for the same when their roots are the same.
    root = hadoop.fs.Path(f"file:{base}/{hashlib.sha256(chr(0).join(files).encode()).hexdigest()}")
    cache = sources.SharedInMemoryCache(_CACHE_BYTES, _NO_TIME_LIMIT).createForNewClient()
    cache.putLeafFiles(root, _statuses(spark, files))
    options = jvm.scala.collection.immutable.HashMap().updated("basePath", f"file:{base}")
    none = jvm.scala.Option.empty()
    whole, own, among = (
        session.parseDataType(kind.json()) for kind in (StructType([*columns, *partitions]), columns, partitions)
    )
    roots = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.List.of(root)).toSeq()
    index = sources.InMemoryFileIndex(session, roots, options, jvm.scala.Option.apply(whole), cache, none, none)
    parquet = sources.parquet.ParquetFileFormat()
    relation = sources.HadoopFsRelation(index, among, own, none, parquet, options, session)
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _statuses(spark: SparkSession, files: Sequence[str]) -> Any:
    """An array of Hadoop's FileStatus, read from the bytes of its own format."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    io = jvm.java.io
    read = jvm.org.apache.hadoop.io.ArrayWritable(jvm.java.lang.Class.forName(_STATUS))
    message = struct.pack(">i", len(files)) + b"".join(map(_status, files))
    read.readFields(io.DataInputStream(io.ByteArrayInputStream(message)))
    found = gateway.new_array(jvm.org.apache.hadoop.fs.FileStatus, len(files))
    jvm.java.lang.System.arraycopy(read.get(), 0, found, 0, len(files))
    return found


def _status(path: str) -> bytes:
    """A file as FileStatusProto of Hadoop, after its length."""
    found = os.stat(path)
    uri = f"file://{path}".encode()  # as Spark writes it where it lists files
    data = b"".join(
        (
            *(_KIND_AND_PATH, _varint(len(uri)), uri, b"\x18", _varint(found.st_size)),
            *(_OWNER_AND_TIME, _varint(found.st_mtime_ns // 1_000_000), _TIME_AND_BLOCKS),
        )
    )
    return struct.pack(">i", len(data)) + data


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
