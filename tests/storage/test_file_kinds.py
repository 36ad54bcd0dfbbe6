"""Each path of a lake is of one kind, and nothing else is a path of a lake."""

from __future__ import annotations

from uuid import UUID

import pytest

from moulin.errors import InvalidInput
from moulin.storage import paths
from moulin.storage.file_kinds import FileKind, KnownFile, identify, require, table_of_folder

T = UUID("01a1e8e6-4157-75a2-a4cf-f50e33e95d8f")
F = UUID("01a1e8e6-4157-75a2-a4cf-000000000000")
SEGMENT = paths.segment_path(T, 7, "00c0ffee")


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (SEGMENT, KnownFile(FileKind.SEGMENT, T, 7)),
        (paths.key_index_path(SEGMENT), KnownFile(FileKind.KEY_INDEX, T, 7)),
        (paths.vector_path(T, F), KnownFile(FileKind.VECTORS, T)),
        (paths.journal_path(T, F), KnownFile(FileKind.JOURNAL, T)),
        (paths.index_path(T, F), KnownFile(FileKind.INDEX_FILE, T)),
        (paths.log_object(T, 3, 9), KnownFile(FileKind.LOG, T, 9)),
        (paths.backfill_batch(T, "a" * 32, 2, bytes(32)), KnownFile(FileKind.BACKFILL, T, 2)),
        (paths.table_manifest(T, 5, "full"), KnownFile(FileKind.TABLE_MANIFEST, T, 5)),
        (paths.lake_manifest(5, "delta"), KnownFile(FileKind.LAKE_MANIFEST, None, 5)),
        (f"{paths.metadata_prefix(T)}/{paths.metadata_name(5, F)}", KnownFile(FileKind.PROJECTION, T)),
        (f"{paths.metadata_prefix(T)}/{paths.manifest_list_name(5, F)}", KnownFile(FileKind.PROJECTION, T)),
        (f"{paths.metadata_prefix(T)}/{paths.iceberg_manifest_name(F, 1, 2)}", KnownFile(FileKind.PROJECTION, T)),
        (f"{paths.metadata_prefix(T)}/{paths.position_deletes_name(F)}", KnownFile(FileKind.PROJECTION, T)),
        (f"{paths.metadata_prefix(T)}/{F}-m0.avro", KnownFile(FileKind.ENGINE_FILE, T)),
        (f"{paths.data_prefix(T)}/region=eu/00000-0-{F}.parquet", KnownFile(FileKind.ENGINE_FILE, T)),
        (paths.baby_segment(F, 3), KnownFile(FileKind.BABY_SEGMENT, F, 3)),
        (paths.temporary(SEGMENT, "0" * 16), KnownFile(FileKind.TEMPORARY, None)),
    ],
)
def test_a_path_of_known_shape_is_identified(path: str, known: KnownFile) -> None:
    assert identify(path) == known
    for wrong in (f"{path}/", f"/{path}", f"./{path}", f"x/../{path}", f"{path}\0", path.replace("/", "//")):
        assert identify(wrong) is None


@pytest.mark.parametrize(
    "path",
    ["", "/", "tables", "tables/", f"tables/{T}", f"tables/{T}/data", "moulin.json", "catalog.sqlite", "x" * 2000],
)
def test_any_other_path_is_not_identified(path: str) -> None:
    assert identify(path) is None


def test_the_folder_of_a_table_is_identified() -> None:
    assert table_of_folder(f"tables/{T}/") == T
    for wrong in ("", "tables/", "/", f"tables/{T}", f"tables/{T}/data/", f"tables/{str(T).upper()}/", f"x/{T}/"):
        assert table_of_folder(wrong) is None


def test_a_path_belongs_to_one_table_and_number() -> None:
    assert require(SEGMENT, FileKind.SEGMENT, T, 7) == SEGMENT
    for kind, table, number in ((FileKind.SEGMENT, T, 8), (FileKind.SEGMENT, F, 7), (FileKind.VECTORS, T, None)):
        with pytest.raises(InvalidInput, match="is not the path of"):
            require(SEGMENT, kind, table, number)
