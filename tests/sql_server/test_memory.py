"""Queries that ask for more memory than there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]
PROGRAM = """
import sys
import moulin

with moulin.connect(sys.argv[1]) as lake:
    lake.create_database("shop")
    lake.create_table("shop.orders", [("id", "long")]).append([{"id": 3}])
    try:
        lake.sql("select size(sequence(0, id * 500000000)) from shop.orders", safe=True).collect()
    except Exception as error:
        print("failed", type(error).__name__)
    print(lake.sql("select id from shop.orders", safe=True).collect()[0].id)
"""


def test_a_query_that_runs_out_of_memory_ends_alone(tmp_path: Path) -> None:
    small = {**os.environ, "MOULIN_SPARK_MEMORY": "1g"}
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "lake")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=500, check=False, env=small)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["failed", "3"]
