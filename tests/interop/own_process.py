"""Engines that want a process of their own: `python -m tests.interop.own_process ENGINE TARGET TABLE...`.

Each TABLE is the folder of an Iceberg table below the working directory; its rows go to TARGET/<place>.arrow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

Read = Callable[[str], pa.Table]


@contextmanager
def clickhouse() -> Iterator[Read]:
    import chdb

    # Tables are named relative to the working directory: chdb opens none outside of it.
    yield lambda folder: chdb.query(f"SELECT * FROM icebergLocal('{folder}/', 'Parquet')", "ArrowTable")


@contextmanager
def sail() -> Iterator[Read]:
    import pyspark
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    # Sail refuses versions that came after it, though it speaks their protocol.
    pyspark.__version__ = "4.1.0"
    server = SparkConnectServer()
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield lambda folder: spark.read.format("iceberg").load(str(Path(folder).absolute())).toArrow()
    spark.stop()
    server.stop()


@contextmanager
def daft() -> Iterator[Read]:
    import daft
    from pyiceberg.table import StaticTable

    def read(folder: str) -> pa.Table:
        (metadata,) = Path(folder).absolute().glob("metadata/*.metadata.json")
        found: pa.Table = daft.read_iceberg(StaticTable.from_metadata(str(metadata))).to_arrow()
        return found

    yield read


ENGINES = {"clickhouse (chdb)": clickhouse, "sail": sail, "daft": daft}


def main(engine: str, target: str, *tables: str) -> None:
    with ENGINES[engine]() as read:
        for place, folder in enumerate(tables):
            found = read(folder)
            with pa.OSFile(f"{target}/{place}.arrow", "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
                writer.write_table(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
