"""Column files hold the values that were computed, bit by bit, however they are encoded."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.formats.segment import tuning
from moulin.lake import Lake
from tests.table.conftest import BACKENDS

FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)
ROWS = 20_000


def values(kind: str, chosen: np.random.Generator) -> Any:
    match kind:
        case "noise":
            return chosen.normal(size=ROWS)
        case "few":
            return chosen.integers(0, 5, ROWS).astype(float)
        case "odd":
            return chosen.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324], ROWS)
        case "none":
            return pa.nulls(ROWS, pa.float64())
    return np.full(ROWS, 1.5)


@FOLDER
@pytest.mark.parametrize("seed", range(4))
def test_the_first_segment_says_how_all_are_encoded_and_no_value_changes(lake: Lake, seed: int) -> None:
    chosen = np.random.default_rng(seed)
    kinds = list(chosen.permutation(["noise", "few", "odd", "none", "one"]))
    table = lake.create_table("shop.wide", [("id", "long"), ("x", "double")], properties={"moulin.inline-bytes": 0})
    for number, kind in enumerate(kinds):
        ids = number * ROWS + np.arange(ROWS)
        table.append(pa.table({"id": ids, "x": pa.array(values(kind, chosen), pa.float64())}))
    if seed % 2:
        table.compact(everything=True)
    table.delete_where(f"id < {seed * 1000}")
    table.add_column("doubled", "double", from_sql="x * 1")
    with patch.object(tuning, "_MOST_LEFT", 2.0):  # the plain path: every column is compressed
        table.add_column("plain", "double", from_sql="x * 1")
    found = table.scan(columns=["x", "doubled", "plain"]).to_arrow().combine_chunks()
    bits = [found[name].combine_chunks() for name in found.column_names]
    for one in bits[1:]:
        assert one.is_valid().equals(bits[0].is_valid())
        same = one.drop_null().to_numpy().view("i8") == bits[0].drop_null().to_numpy().view("i8")
        assert (same | np.isnan(bits[0].drop_null().to_numpy())).all()
    table.fold()
    again = table.scan(columns=["doubled", "plain"]).to_arrow().combine_chunks()
    assert again["doubled"].combine_chunks().is_valid().equals(bits[0].is_valid())
    assert (
        again["doubled"].combine_chunks().drop_null().to_numpy().tobytes() == bits[1].drop_null().to_numpy().tobytes()
    )


@FOLDER
def test_noise_is_not_compressed_in_a_column_file(lake: Lake) -> None:
    noise = np.random.default_rng(1).normal(size=400_000)
    columns = [("id", "long"), *((f"c{n}", "double") for n in range(25))]
    table = lake.create_table("shop.wide", columns)
    table.append(pa.table({"id": np.arange(400_000)} | {f"c{n}": noise for n in range(25)}))
    table.add_column("sum", "double", from_sql="c0 + c1")
    (one,) = table._context.catalog.segments(table.id, table.version)[:1]
    assert one.facts.level > 0
    (file,) = one.facts.files
    chunk = pq.read_metadata(table._context.store.local_path(file.path)).row_group(0).column(0)
    assert chunk.compression == "UNCOMPRESSED"
    assert "BYTE_STREAM_SPLIT" in chunk.encodings
