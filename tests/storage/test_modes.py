"""Who may read the files of a lake in a folder, whatever the umask of the process is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import moulin
from moulin.lake import Lake


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask-000", "umask-022", "umask-077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _modes(root: Path) -> tuple[set[int], set[int]]:
    """Those of all folders, the root among them, and those of all files."""
    every = [root, *root.rglob("*")]
    return {_mode(path) for path in every if path.is_dir()}, {_mode(path) for path in every if path.is_file()}


def _use(lake: Lake) -> None:
    """Something of every kind: segments, vectors, key indexes, journals, logs, projections, an index, notes."""
    lake.create_database("shop", if_not_exists=True)
    events = lake.create_table("shop.events", [("id", "long")], if_not_exists=True)
    events.append([{"id": n} for n in range(5)])
    events.delete_where("id = 1")
    keyed = lake.create_table("shop.k", [("id", "long", False)], primary_key=["id"], if_not_exists=True)
    keyed.put({"id": 1})
    keyed.flush()
    keyed.put({"id": 2})


def test_a_new_lake_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "parents" / "lake"
    with moulin.connect(root) as lake:
        _use(lake)
        names = {path.name for path in root.rglob("*")}
        assert {"catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm", "living"} <= names
        assert any(name.endswith(".wal") for name in names)
        assert _modes(root) == ({0o700}, {0o600})
    assert _modes(root) == ({0o700}, {0o600})
    assert _mode(root.parent) == 0o777 & ~umask, "a parent is made as `mkdir -p` makes it"


def test_a_folder_that_was_there_keeps_its_mode_and_its_catalog_is_private(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    root.chmod(0o755)
    with moulin.connect(root) as lake:
        _use(lake)
        for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
            assert _mode(root / name) == 0o600
        assert {_mode(path) for path in root.rglob("*.wal")} == {0o600}
        assert {_mode(path) for path in root.rglob("*.parquet")} == {0o644}
        assert _modes(root)[0] == {0o755}


def test_a_lake_that_was_given_to_a_group_stays_with_it(tmp_path: Path, umask: int) -> None:
    """As documented: `chmod -R g+rwX lake`, and new files follow."""
    root = tmp_path / "lake"
    with moulin.connect(root) as lake:
        _use(lake)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o2770 if path.is_dir() else 0o660)
    with moulin.connect(root) as lake:
        _use(lake)
        assert _modes(root) == ({0o2770}, {0o660})


def test_the_files_of_a_lake_elsewhere_are_private_too(tmp_path: Path, umask: int) -> None:
    with moulin.connect(tmp_path / "catalog", storage=str(tmp_path / "files")) as lake:
        _use(lake)
        for root in (tmp_path / "catalog", tmp_path / "files"):
            assert _modes(root) == ({0o700}, {0o600})
