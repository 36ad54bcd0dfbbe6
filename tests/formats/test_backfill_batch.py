"""The list of files of a batch: byte-exact, as docs/formats/backfill_batch.md says, and refused when damaged."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats.backfill_batch import BackfillBatch, LoadedFile, decode, digest, encode, source_key
from moulin.storage import paths

BATCH = BackfillBatch("inbox", 0, (LoadedFile("day=1/a.csv", 12, "e1"),))
PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "backfill_batch.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    example = re.search(r"<!-- example -->\n```\n(.*?)\n```", PAGE, re.DOTALL)
    assert example is not None
    data = example[1].encode()
    assert encode(BATCH) == data
    assert decode(data, digest(data), name="x") == BATCH
    assert f"Source key `{source_key('inbox')}`, SHA-256 `{digest(data).hex()}`" in PAGE


def test_damage_and_newer_formats_are_refused() -> None:
    data = encode(BATCH)
    with pytest.raises(Corrupt, match="x is damaged"):
        decode(data.replace(b"12", b"13"), digest(data), name="x")
    newer = data.replace(b'"format":1', b'"format":2')
    with pytest.raises(Unsupported, match="format 2"):
        decode(newer, digest(newer), name="x")


def test_the_name_of_a_batch_has_its_source_number_and_digest() -> None:
    table = UUID(int=1)
    name = paths.backfill_batch(table, source_key("inbox"), 7, digest(b""))
    assert name == f"tables/{table}/backfills/{source_key('inbox')}/{7:020}-{digest(b'').hex()}.json"
    with pytest.raises(InvalidInput):
        paths.backfill_batch(table, "../x", 7, digest(b""))
