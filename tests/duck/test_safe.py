"""Statements of people who are trusted with the tables alone: where files are is not theirs to know."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin.duck.safe import SafeDuck
from moulin.errors import InvalidInput
from moulin.lake import Lake
from tests.duck.conftest import rows


@pytest.fixture
def lost(lake: Lake) -> Path:
    """A file that a table needs and that is gone, beside a table that has all of its own."""
    for name in ("lost", "kept"):
        lake.create_table(f"d.{name}", [("id", "long")]).append([{"id": 1}, {"id": 2}])
    lake.create_view("d.both", ["lost", "kept"])
    (segment,) = lake.catalog.segments(lake.table("d.lost").id, lake.version)
    local = lake.store.local_path(segment.facts.path)
    assert local is not None
    return local


@pytest.mark.parametrize("content", [None, b"PAR1 no footer PAR1"])
def test_a_table_with_a_lost_file_does_not_keep_others_from_being_read(
    lake: Lake, lost: Path, content: bytes | None
) -> None:
    """Views of all tables are made at once, and one that could not be planned stopped every statement."""
    lost.unlink()
    if content is not None:
        lost.write_bytes(content)
    connection = lake.duckdb()
    assert rows(connection, "FROM d.kept WHERE id > 1") == [{"id": 2}]
    for name in ("lost", "both"):
        with pytest.raises(Exception, match="lost") as refused:
            rows(connection, f"FROM d.{name}")
        assert name in str(refused.value) or lost.name in str(refused.value)


def test_errors_do_not_say_where_files_are(lake: Lake, lost: Path, tmp_path: Path) -> None:
    folder = tmp_path / "spilled"
    folder.mkdir()
    safe = SafeDuck(lake, folder, memory_bytes=1 << 28)
    _, found = safe.run("select * from d.lost")
    assert [batch.num_rows for batch in found] == [2]
    lost.write_bytes(b"PAR1 no footer PAR1")
    for duck in (safe, SafeDuck(lake, folder, memory_bytes=1 << 28)):
        with pytest.raises(InvalidInput) as refused:
            list(duck.run("select * from d.lost")[1])
        assert str(tmp_path) not in refused.value.message
        assert "(a file)" in refused.value.message


def test_deleted_rows_lie_where_the_connection_may_read(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("d.t", [("id", "long")])
    table.append([{"id": number} for number in range(9)])
    table.delete_where("id > 2")
    folder = tmp_path / "own"
    folder.mkdir()
    found = SafeDuck(lake, folder, memory_bytes=1 << 28).run("select count(*) as n from d.t")[1]
    assert [row for batch in found for row in batch.to_pylist()] == [{"n": 3}]
