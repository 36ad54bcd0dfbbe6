"""Decodes small files with the same columns together: pyarrow sees them as row groups of one file.

A call of pyarrow costs more than to decode some hundred rows. Pages are as stored, and so are their checksums.
"""

# Decisions: docs/decisions/0312, docs/decisions/0380

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.page_reader import write_chunk, write_footer, write_group
from moulin.formats.segment.row_mapping import RowMapping
from moulin.formats.segment.wide_texts import open_parquet, read_texts

SmallFile = tuple[bytes, OpenedFile]
"""The bytes of a file, and its footer."""


def can_join(files: Sequence[SmallFile]) -> bool:
    """Whether these are segments that store the same columns in the same way."""
    first = files[0][1]
    return first.own and all(opened.is_sealed and opened.map.start == first.map.start for _, opened in files[1:])


def read_joined(files: Sequence[SmallFile], mapping: RowMapping, *, trust: bool) -> pa.Table:
    """All rows of the files, one after the other. Errors do not say which file they are of.

    `mapping` is for the first file. With `trust`, checksums that were right before are not checked again.
    """
    if not mapping.leaves:
        raise ValueError("there is nothing to read")
    first, rows = files[0][1], sum(opened.map.rows for _, opened in files)
    wanted = sorted({first.leaves[leaf].column for leaf in mapping.leaves})
    leaves = [leaf.index for leaf in first.leaves if leaf.column in wanted]
    data, groups = _joined(files, wanted, leaves)
    chunks = [
        (opened, (group, leaf)) for _, opened in files for group in range(opened.map.groups) for leaf in mapping.leaves
    ]
    verified = trust and all(chunk in opened.verified for opened, chunk in chunks)
    index_of = {leaf: index for index, leaf in enumerate(leaves)}
    columns = [index_of[leaf] for leaf in mapping.leaves]

    def read(wide: bool) -> pa.Table:
        reader = open_parquet(pa.BufferReader(data), verify=not verified, wide=wide).reader
        return reader.read_row_groups(list(range(groups)), column_indices=columns, use_threads=False)

    table = read_texts((first.arrow.field(column).type for column in wanted), read)
    if table.num_rows != rows:
        raise ValueError(f"{len(files)} files hold {table.num_rows} rows where their footers say {rows}")
    if trust and not verified:
        for opened, chunk in chunks:
            opened.verified.add(chunk)
    return mapping.apply(table.replace_schema_metadata(None))


def _joined(files: Sequence[SmallFile], wanted: Sequence[int], leaves: Sequence[int]) -> tuple[bytes, int]:
    """A Parquet file of these columns, `leaves` their leaves, of all files, and how many row groups it has."""
    body, groups = bytearray(b"PAR1"), []
    for data, opened in files:
        base, found = len(body), opened.map
        body += data
        for group in range(found.groups):
            chunks = [found.chunk(group, leaf) for leaf in leaves]
            written = [write_chunk(c, c.values, c.size, base + c.data_start, base + c.start) for c in chunks]
            groups.append(write_group(written, found.group_rows(group)))
    columns = files[0][1].map.columns
    body += write_footer([element for column in wanted for element in columns[column]], len(wanted), groups)
    return bytes(body), len(groups)


__all__ = ["SmallFile", "can_join", "read_joined"]
