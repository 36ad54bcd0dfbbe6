"""What living processes note, and what clean-up makes of it."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from moulin.catalog.sql import living
from moulin.catalog.sql.living import Living, survey
from moulin.errors import FailedPrecondition

TABLE = uuid4()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "catalog.sqlite"


def segment(number: int) -> str:
    return f"tables/{TABLE}/data/_moulin_segment={number}/0badf00d.parquet"


def test_the_oldest_version_that_anybody_reads_counts(file: Path) -> None:
    one, other = Living(file, 60), Living(file, 60)
    for who, version in ((one, 7), (one, 9), (other, 8), (one, 7)):
        who.pin(TABLE, version)
    assert survey(file).pins == {TABLE: 7}
    one.unpin(TABLE, 7)
    assert survey(file).pins == {TABLE: 7}, "somebody else has it too"
    one.unpin(TABLE, 7)
    assert survey(file).pins == {TABLE: 8}
    other.close()
    assert survey(file).pins == {TABLE: 9}
    one.close()
    assert survey(file).pins == {}
    assert not list((file.parent / "living").iterdir())


def test_numbers_are_protected_until_they_are_committed(file: Path) -> None:
    one, other = Living(file, 60), Living(file, 60)
    one.reserve(10, 4)
    other.reserve(14, 1)
    found = survey(file)
    assert [found.may_be_committed(segment(n)) for n in (9, 10, 14, 20)] == [False, True, True, True]
    assert found.may_be_committed(f"tables/{TABLE}/deletes/{'0' * 32}.puffin")
    one.settle([12])
    assert [survey(file).may_be_committed(segment(n)) for n in (13, 14)] == [False, True]
    other.settle([14])
    assert not survey(file).is_writing
    with one.writing():
        assert survey(file).is_writing
        assert not survey(file).may_be_committed(segment(99))
    assert not survey(file).is_writing


def test_many_writes_that_failed_keep_the_note_small(file: Path) -> None:
    one = Living(file, 60)
    for number in range(1, 3000, 3):
        one.reserve(number, 2)
    assert survey(file).first_number == 1
    assert max(path.stat().st_size for path in (file.parent / "living").iterdir()) < 20_000


def test_a_lake_beside_another_is_not_mixed_up_with_it(file: Path) -> None:
    one = Living(file.with_name("other.sqlite"), 60)
    one.pin(TABLE, 1)
    assert survey(file).pins == {}
    one.close()


def test_a_forked_child_neither_keeps_nor_gives_up_what_is_its_parents(file: Path) -> None:
    one = Living(file, 60)
    one.pin(TABLE, 5)
    one._forget()  # what a child does first; here it takes the place of the parent, whose lock is gone with it
    assert survey(file).pins == {}
    one.unpin(TABLE, 5)
    one.pin(TABLE, 6)
    assert survey(file).pins == {TABLE: 6}
    one.close()


def test_a_note_that_changes_all_the_time_is_read_whole(file: Path) -> None:
    one, over = Living(file, 60), threading.Event()
    one.pin(TABLE, 5)
    tables = [uuid4() for _ in range(20)]

    def change() -> None:
        while not over.is_set():
            for table in tables:
                one.pin(table, 1)
            for table in tables:
                one.unpin(table, 1)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert all(survey(file).pins[TABLE] == 5 for _ in range(200))
    finally:
        over.set()
        thread.join()
        one.close()


def test_a_damaged_note_of_a_living_process_stops_clean_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(living, "_READS", 2)
    folder = file.parent / "living"
    folder.mkdir()
    note = folder / "catalog.sqlite-0123456789abcdef"
    note.write_bytes(b"00000000{}")
    fd = os.open(note, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(FailedPrecondition, match="damaged"):
        survey(file)
    os.close(fd)
    assert survey(file).pins == {}, "its process is dead: nothing in it counts"
    assert not note.exists()
