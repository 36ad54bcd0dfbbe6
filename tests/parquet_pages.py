"""The page headers of Parquet files, which no library shows."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq


class Page:
    """A page header, as far as the tests look at it."""

    def __init__(self, fields: dict[int, Any]) -> None:
        self.kind, self.size, self.stored, self.crc = fields[1], fields[2], fields[3], fields.get(4)
        data = fields.get(5) or fields[7]
        self.values, self.encoding = data[1], data[2]


def page_headers(data: bytes, chunk: pq.ColumnChunkMetaData) -> list[Page]:
    """Reads the Thrift headers between the pages of a column chunk."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return value, at

    def fields(at: int) -> tuple[dict[int, Any], int]:
        found: dict[int, Any] = {}
        number = 0
        while data[at]:
            step, kind = data[at] >> 4, data[at] & 15
            assert step, "long form of a field id"
            number, at = number + step, at + 1
            if kind in (1, 2):
                found[number] = kind == 1
            elif kind in (5, 6):
                value, at = varint(at)
                found[number] = (value >> 1) ^ -(value & 1)
            else:
                assert kind == 12, "page headers hold numbers and structs"
                found[number], at = fields(at)
        return found, at + 1

    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = at + chunk.total_compressed_size
    pages = []
    while at < end:
        header, at = fields(at)
        pages.append(Page(header))
        at += pages[-1].stored
    return pages
