"""Statements on Spark: several of them, and one that is cancelled."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import moulin
from moulin.cli.query.engines import SparkEngine
from moulin.errors import InvalidInput
from tests.cli.conftest import Run

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("spark")
def test_statements_on_spark_are_split_as_spark_quotes(run: Run, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        lake.create_table("d.t", [("id", "long")]).append([{"id": 1}])
    text = r"select 'a\';b' as a; select count(*) as n from d.t; truncate table d.t; select count(*) as n from d.t"
    done = run("sql", text, "--format", "csv")
    assert done.code == 0, done.err
    assert done.out.splitlines()[:4] + done.out.splitlines()[-2:] == ["a", "a';b", "n", "1", "n", "0"]
    empty = tmp_path / "empty.parquet"
    assert (
        run(
            "sql", "select id, timestamp'2024-01-01' as at from d.t", "--format", "parquet", "--output", str(empty)
        ).code
        == 0
    )
    assert empty.exists()


def test_a_cancelled_statement_ends_and_the_next_one_runs(spark: SparkSession, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", spark=spark) as lake:
        engine = SparkEngine(lake, fresh=True, safe=False)
        assert [batch.num_rows for batch in engine.run("select 1 as a", None).batches] == [1]
        ended: list[str] = []

        def work() -> None:
            try:
                list(engine.run("select sum(a.id * b.id) from range(1000000) a, range(10000000) b", 10).batches)
            except InvalidInput as error:
                ended.append(error.message)

        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            time.sleep(0.5)
            engine.cancel()
        assert "cancel" in ended[0].lower()
        assert [batch.num_rows for batch in engine.run("select 2 as a", None).batches] == [1]
