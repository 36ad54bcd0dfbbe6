"""Arrow streams of clients: a few bytes must not become many rows in the driver."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from moulin.errors import InvalidInput
from moulin.pipeline.connect.client_rows import MAX_ROWS, check_rows


def stream(columns: dict[str, Any], compression: str | None = None) -> bytes:
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


PLAIN = {
    "id": [1, 2],
    "name": ["x", None],
    "list": [[1], []],
    "struct": [{"x": 1.5}, None],
    "map": pa.array([[("k", True)], []], pa.map_(pa.string(), pa.bool_())),
    "nothing": pa.nulls(2),
}


def test_plain_rows_are_taken() -> None:
    check_rows(stream(PLAIN))
    check_rows(b"")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(stream({"a": [0] * 100_000}, "zstd"), id="zstd"),
        pytest.param(stream(PLAIN, "lz4"), id="lz4"),
        pytest.param(stream({"a": pa.nulls(MAX_ROWS + 1)}), id="rows of nothing"),
        pytest.param(stream({"a": pa.ListArray.from_arrays([0, 1000], pa.nulls(1000))}), id="a list of nothing"),
        pytest.param(stream({"a": pa.array(["x", "x"]).dictionary_encode()}), id="words of a dictionary"),
        pytest.param(stream({"a": pa.array(["x"], pa.string_view())}), id="views of text"),
        pytest.param(stream({"a": pa.RunEndEncodedArray.from_arrays([1000], ["x"])}), id="runs"),
        pytest.param(stream({"a": pa.array([[1, 2]], pa.list_(pa.int64(), 2))}), id="lists of one length"),
        pytest.param(stream(PLAIN)[:-300], id="cut"),
        pytest.param(b"junk" * 100, id="junk"),
    ],
)
def test_rows_that_would_grow_or_cannot_be_read_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        check_rows(data)


def test_text_that_points_beyond_its_buffer_is_refused() -> None:
    head, offsets, text = stream({"a": ["x" * 77]}).rpartition(struct.pack("<ii", 0, 77))
    assert offsets
    check_rows(head + offsets + text)
    with pytest.raises(InvalidInput):
        check_rows(head + struct.pack("<ii", 0, 1_000_000) + text)
