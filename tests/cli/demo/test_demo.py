"""The tour, small: it runs to its end, and what it claims is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin.lake import Lake
from tests.cli.conftest import Run


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_tour_runs_to_its_end_and_recovers_its_lake(run: Run, tmp_path: Path) -> None:
    done = run("demo", "--folder", str(tmp_path / "tour"), "--rows", "80000")
    assert done.code == 0, done.err
    assert "The result is the same." in done.out
    assert "(as before)" in " ".join(done.out.split())
    assert "What to try next" in done.out
    with Lake.open(tmp_path / "tour") as lake:
        sales = lake.table("shop.sales")
        assert sales.stats().segments == 1
        assert sales.scan(where="product = 13").count() == 0
    again = run("demo", "--folder", str(tmp_path / "tour"))
    assert again.code == 1
    assert "choose another folder" in again.err
