"""Engines in a process of their own: `python -m tests.interop.own_process TARGET`.

Its input is JSON: the place of the first question to answer, and all questions. Each is an engine and what it reads:
the folder of an Iceberg table below the working directory, or the metadata of one. The rows go to
TARGET/<place>.arrow, or why there are none to TARGET/<place>.failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from tests.interop import engines
from tests.interop.engines import Read, duckdb_filtered


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


def reader(engine: str, running: ExitStack) -> Read:
    if engine in ENGINES:
        return running.enter_context(ENGINES[engine]())
    return duckdb_filtered if engine == "duckdb filtered" else engines.ENGINES[engine]


def answer(read: Read, asked: str, file: Path) -> None:
    try:
        found = read(asked)
    except BaseException as error:  # noqa: BLE001 - what is written in Rust panics with one that is no Exception
        file.with_suffix(".failed").write_text(f"{type(error).__name__}: {error}"[:2000])
        return
    part = file.with_suffix(".part")
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
        writer.write_table(found)
    part.rename(file)


def main(target: str) -> None:
    first, questions = json.load(sys.stdin)
    with ExitStack() as running:
        started: dict[str, Read] = {}
        for place, (engine, asked) in list(enumerate(questions))[first:]:
            if engine not in started:
                started[engine] = reader(engine, running)
            answer(started[engine], asked, Path(target) / f"{place}.arrow")


if __name__ == "__main__":
    main(*sys.argv[1:])
