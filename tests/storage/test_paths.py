from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.storage import paths

TABLE = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
FILE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")

numbers = st.integers(0, paths.MAX_NUMBER)
hex8 = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
kinds = st.sampled_from(["delta", "full"])
PARSERS = (
    paths.parse_lake_manifest,
    paths.parse_segment_path,
    paths.parse_vector_path,
    paths.parse_journal_path,
    paths.parse_table_manifest,
    paths.parse_log_object,
    paths.parse_baby_segment,
    paths.parse_local_log_file,
    paths.parse_metadata,
    paths.parse_iceberg_manifest,
    paths.parse_projection_path,
)


def test_the_names_on_disk_never_change() -> None:
    assert paths.marker() == "moulin.json"
    assert paths.catalog_file() == "catalog.sqlite"
    assert paths.lake_manifest(7, "delta") == "manifests/00000000000000000007.delta"
    assert paths.lake_manifest(7, "full") == "manifests/00000000000000000007.full"
    assert paths.segment_folder(TABLE, 12) == f"tables/{TABLE}/data/_moulin_segment=12"
    assert paths.segment_path(TABLE, 12, "00c0ffee") == f"tables/{TABLE}/data/_moulin_segment=12/00c0ffee.parquet"
    assert paths.vector_path(TABLE, FILE) == f"tables/{TABLE}/deletes/{FILE.hex}.puffin"
    assert paths.journal_path(TABLE, FILE) == f"tables/{TABLE}/journals/{FILE.hex}.journal"
    assert paths.table_manifest(TABLE, 7, "delta") == f"tables/{TABLE}/manifests/00000000000000000007.delta"
    assert paths.table_manifest(TABLE, 7, "full") == f"tables/{TABLE}/manifests/00000000000000000007.full"
    assert paths.log_object(TABLE, 3, 41) == f"tables/{TABLE}/log/3/00000000000000000041.log"
    assert paths.local_log_file(41) == "00000000000000000041.wal"
    assert paths.metadata_name(7, FILE) == f"00000000000000000007-{FILE.hex}.metadata.json"
    assert paths.manifest_list_name(12, FILE) == f"snap-12-{FILE.hex}.avro"
    assert paths.iceberg_manifest_name(FILE, 3, 41) == f"{FILE.hex}-3-41.avro"
    assert paths.position_deletes_name(FILE) == f"{FILE.hex}-deletes.parquet"


@given(st.uuids(), st.uuids(), numbers, hex8, kinds)
def test_parsing_gives_the_parts_back(
    table: UUID, file: UUID, number: int, suffix: str, kind: paths.ManifestKind
) -> None:
    segment = paths.segment_path(table, number, suffix)
    assert paths.parse_segment_path(segment) == (table, number)
    assert paths.parse_lake_manifest(paths.lake_manifest(number, kind)) == (number, kind)
    assert paths.parse_vector_path(paths.vector_path(table, file)) == (table, file)
    assert paths.parse_journal_path(paths.journal_path(table, file)) == (table, file)
    assert paths.parse_table_manifest(paths.table_manifest(table, number, kind)) == (table, number, kind)
    assert paths.parse_log_object(paths.log_object(table, number, number)) == (table, number, number)
    assert paths.parse_local_log_file(paths.local_log_file(number)) == number
    metadata = paths.metadata_prefix(table)
    assert paths.parse_metadata(f"{metadata}/{paths.metadata_name(number, file)}") == (table, number)
    assert paths.parse_iceberg_manifest(paths.iceberg_manifest_name(file, 0, number)) == (0, number)
    for name in (
        paths.metadata_name(number, file),
        paths.manifest_list_name(number, file),
        paths.iceberg_manifest_name(file, number, number),
        paths.position_deletes_name(file),
    ):
        assert paths.parse_projection_path(f"{metadata}/{name}") == table
    assert paths.parse_baby_segment(paths.baby_segment(table, number)) == (table, number)
    for prefix in ("", "/srv/lake/", "file:/srv/lake/", "s3a://bucket/lake/"):
        assert paths.segment_number(prefix + segment) == number


@given(st.uuids(), st.uuids(), numbers, hex8, kinds)
def test_each_name_has_one_meaning_and_lies_below_its_table(
    table: UUID, file: UUID, number: int, suffix: str, kind: paths.ManifestKind
) -> None:
    names = {
        paths.lake_manifest(number, kind): "",
        paths.segment_path(table, number, suffix): paths.data_prefix(table),
        paths.vector_path(table, file): paths.deletes_prefix(table),
        paths.journal_path(table, file): paths.journals_prefix(table),
        paths.table_manifest(table, number, kind): paths.table_manifests_prefix(table),
        paths.log_object(table, number, number): paths.log_prefix(table, number),
        paths.local_log_file(number): "",
    }
    for name, folder in names.items():
        assert sum(parse(name) is not None for parse in PARSERS) == 1
        assert paths.checked(name) == name
        assert not paths.is_temporary(name)
        if folder:
            assert name.startswith(folder + "/")
            assert folder.startswith(paths.table_prefix(table) + "/")


@given(numbers, numbers)
def test_manifests_and_logs_sort_by_number(one: int, other: int) -> None:
    assert (paths.lake_manifest(one, "full") < paths.lake_manifest(other, "full")) == (one < other)
    assert (paths.log_object(TABLE, 0, one) < paths.log_object(TABLE, 0, other)) == (one < other)
    assert (paths.local_log_file(one) < paths.local_log_file(other)) == (one < other)


GOOD = paths.segment_path(TABLE, 12, "00c0ffee")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/" + GOOD,
        "x/" + GOOD,
        GOOD + "\n",
        GOOD + "/",
        GOOD.replace("=12", "=012"),
        GOOD.replace("=12", "=+12"),
        GOOD.replace("=12", "=-1"),
        GOOD.replace("=12", f"={paths.MAX_NUMBER + 1}"),
        GOOD.replace("=12", "=\u0661"),
        GOOD.replace("00c0ffee", "00C0FFEE"),
        GOOD.replace("00c0ffee", "../../x"),
        GOOD.replace(str(TABLE), str(TABLE).upper()),
        GOOD.replace(str(TABLE), TABLE.hex),
        GOOD.replace(str(TABLE), ".."),
        f"tables/{TABLE}/manifests/7.delta",
        f"tables/{TABLE}/manifests/{paths.MAX_NUMBER + 1:020}.delta",
        f"tables/{TABLE}/manifests/00000000000000000007.other",
        "manifests/99999999999999999999.delta",
        "manifests/00000000000000000007.delta.tmp",
        "manifests/00000000000000000007.manifest",
        f"tables/{TABLE}/deletes/{FILE}.puffin",
        f"tables/{TABLE}/log/03/00000000000000000041.log",
        f"tables/{TABLE}/log/3/41.log",
        f"tables/{TABLE}/log/3/{paths.MAX_NUMBER + 1:020}.log",
        f"tables/{TABLE}/log/{paths.MAX_NUMBER + 1}/00000000000000000041.log",
        "41.wal",
        f"{paths.MAX_NUMBER + 1:020}.wal",
        "x/00000000000000000041.wal",
        paths.temporary(paths.local_log_file(41), "0123456789abcdef"),
        paths.temporary(GOOD, "0123456789abcdef"),
    ],
)
def test_other_spellings_are_not_parsed(path: str) -> None:
    assert [parse(path) for parse in PARSERS] == [None] * len(PARSERS)


@given(st.text())
def test_parsers_answer_any_text(text: str) -> None:
    for parse in (*PARSERS, paths.segment_number, paths.is_temporary):
        parse(text)


@pytest.mark.parametrize(
    "build",
    [
        lambda: paths.lake_manifest(-1, "delta"),
        lambda: paths.lake_manifest(paths.MAX_NUMBER + 1, "full"),
        lambda: paths.lake_manifest(True, "full"),
        lambda: paths.lake_manifest(1, _any("manifest")),
        lambda: paths.segment_path(TABLE, -1, "00c0ffee"),
        lambda: paths.segment_path(TABLE, 1, "../../etc"),
        lambda: paths.segment_path(TABLE, 1, "00c0ffee\n"),
        lambda: paths.table_manifest(TABLE, 1, _any("../x")),
        lambda: paths.table_prefix(_any("..")),
        lambda: paths.vector_path(TABLE, _any("/etc/passwd")),
        lambda: paths.log_object(TABLE, -1, 1),
        lambda: paths.log_object(TABLE, 1, -1),
        lambda: paths.local_log_file(-1),
        lambda: paths.temporary("a", "/../"),
        lambda: paths.temporary("../a", "0123456789abcdef"),
    ],
)
def test_builders_refuse_what_would_leave_the_layout(build: Any) -> None:
    with pytest.raises(InvalidInput):
        build()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        "a/../b",
        "a/..",
        "./a",
        "a//b",
        "a/",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        "\ud800",
        "x" * 1025,
    ],
)
def test_hostile_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        paths.checked(path)


def test_the_longest_path_is_accepted() -> None:
    assert paths.checked("x" * paths.MAX_PATH_BYTES)
    with pytest.raises(InvalidInput, match="bytes"):
        paths.checked("é" * 513)


@given(
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20),
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
)
def test_temporary_names_are_hidden_and_known(name: str, token: str) -> None:
    for path in (name, f"folder/{name}", GOOD):
        temporary = paths.temporary(path, token)
        assert paths.is_temporary(temporary)
        assert not paths.is_temporary(path)
        folder, _, last = temporary.rpartition("/")
        assert folder == path.rpartition("/")[0]
        assert re.match(r"\.", last)


def _any(value: object) -> Any:
    return value
