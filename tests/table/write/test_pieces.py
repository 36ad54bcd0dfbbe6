"""Rows are written in pieces: one of them is in memory at a time, however many rows there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import moulin
from moulin.config import MIB
from moulin.model.schema import values
from moulin.table.write.pieces import pieces

_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("other", pa.int64())])
_ROWS = 16_384  # 256 KiB in each batch


class _Source:
    """Batches that are made when they are asked for, and the most bytes that Arrow held while they were."""

    def __init__(self, batches: int) -> None:
        self._batches, self._before, self.most = batches, pa.total_allocated_bytes(), 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._batches):
            self.most = max(self.most, pa.total_allocated_bytes() - self._before)
            ids = pa.array(range(number * _ROWS, (number + 1) * _ROWS), pa.int64())
            yield pa.record_batch([ids, pa.array(range(_ROWS), pa.int64())], _SCHEMA)


def test_pieces_have_all_rows_in_their_order() -> None:
    fields = (values.NestedField(n, name, values.LongType(), required=n == 0) for n, name in enumerate(_SCHEMA.names))
    schema = values.Schema(*fields)
    for limit in (1, 100_000, MIB, 1 << 30):
        found = list(pieces(_Source(9), schema, limit))
        assert all(piece.num_rows for piece in found)
        assert pa.concat_tables(found).column("id").to_pylist() == list(range(9 * _ROWS))


@pytest.mark.parametrize("keyed", [False, True])
def test_a_piece_is_gone_before_the_next_one_is_gathered(tmp_path: Path, keyed: bool) -> None:
    with moulin.connect(tmp_path / "lake", append_segment_bytes=4 * MIB) as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", _SCHEMA, primary_key=["id"] if keyed else None)
        source = _Source(64)
        table.append(pa.RecordBatchReader.from_batches(_SCHEMA, source))
        assert np.array_equal(np.sort(table.scan().to_arrow().column("id")), np.arange(64 * _ROWS))
    assert source.most < 6 * MIB
