"""What only a folder can do, or suffer."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound, Unavailable
from moulin.storage import Store, open_store, paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a lake#1"


@pytest.fixture
def local(folder: Path) -> Store:
    return open_store(folder)


def test_a_folder_may_be_named_in_several_ways(folder: Path, local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    local.put("a/b", b"x")
    monkeypatch.chdir(folder.parent)
    for name in (
        folder,
        str(folder),
        local.uri,
        folder.as_uri(),
        f"file://localhost{folder.as_uri()[7:]}",
        "./a lake#1",
    ):
        store = open_store(name)
        assert store.get("a/b") == b"x"
        assert store.uri == folder.as_uri()
    assert open_store(folder.as_uri().replace("///", "/")).uri == local.uri
    assert local.is_local
    assert local.local_path("a/b") == folder / "a/b"


def test_a_missing_folder_is_made_or_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="x/y/z"):
        open_store(tmp_path / "x/y/z", create=False)
    assert not (tmp_path / "x").exists()
    open_store(tmp_path / "x/y/z")
    assert open_store(tmp_path / "x/y/z", create=False).is_local


@pytest.mark.parametrize("uri", ["", "a\0b", "file://other-host/x", "file:///x?y=1", "file:///x#y", "file://"])
def test_what_is_no_folder_name_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput):
        open_store(uri)


def test_a_folder_takes_no_options(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="secret_access_key") as caught:
        open_store(folder, {"secret_access_key": "hush"})
    assert "hush" not in str(caught.value)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("file", "file/below"):
        with pytest.raises(FailedPrecondition, match=str(tmp_path / name)):
            open_store(tmp_path / name)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that nobody can write")
def test_a_folder_that_cannot_be_written_is_named() -> None:
    with pytest.raises(FailedPrecondition, match="/proc/lake"):
        open_store("/proc/lake")
    store = open_store("/proc", create=False)
    for write in (store.put, store.put_if_absent):
        with pytest.raises(FailedPrecondition, match="/proc/x/y"):
            write("x/y", b"")
    with pytest.raises(FailedPrecondition, match="/proc/x"), store.writer("x"):
        raise AssertionError("the block must not start")
    with pytest.raises(FailedPrecondition, match="/proc/"):
        store.check_put_if_absent()


def test_a_file_in_the_place_of_an_inner_folder_is_named(local: Store) -> None:
    local.put("t", b"")
    with pytest.raises(FailedPrecondition, match="t/1/x"):
        local.put("t/1/x", b"")
    local.put("u/x", b"")
    with pytest.raises(FailedPrecondition, match="u"):
        local.put("u", b"")
    with pytest.raises(AlreadyExists):
        local.put_if_absent("u", b"")


def test_a_lake_folder_that_vanished_is_neither_made_again_nor_empty(folder: Path, local: Store) -> None:
    folder.rmdir()
    with pytest.raises(FailedPrecondition):
        local.put("t/1/x", b"")
    assert not folder.exists()
    with pytest.raises(NotFound):
        local.list("t")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_is_unavailable(local: Store, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    for write in (local.put, local.put_if_absent):
        with pytest.raises(Unavailable, match="there"):
            write("there", b"x")
    monkeypatch.undo()
    assert [*local.list()] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_met_by_the_write(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "dup", lambda descriptor: os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(Unavailable, match="No space left"), local.writer("t/x") as file:
        for _ in range(3):
            file.write(b"x" * (1 << 20))
    assert [*local.list()] == []


def test_a_file_system_without_hard_links_is_refused(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(FailedPrecondition, match="hard links"):
        local.check_put_if_absent()
    assert [*local.list()] == []


@pytest.mark.parametrize("how", ["put", "put_if_absent", "put_fresh", "writer"])
def test_bytes_are_synced_before_the_name_and_the_name_after(
    local: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    events: list[str] = []

    def record(name: str) -> None:
        original: Any = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            done = original(*args, **kwargs)
            if name == "fsync":
                file = os.readlink(f"/proc/self/fd/{args[0]}")
                size = Path(file).stat().st_size if os.path.isfile(file) else None
                events.append("sync bytes" if size == 5 else f"sync {os.path.relpath(file, folder)}")
            elif name == "mkdir":
                events.append(f"make {os.path.relpath(args[0], folder)}")
            else:
                events.append("name")
            return done

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "link", "replace", "mkdir"):
        record(name)
    if how == "writer":
        with local.writer("t/1/x") as file:
            file.write(b"12345")
    else:
        getattr(local, how)("t/1/x", b"12345")
    assert events[:2] == ["make t", "make t/1"]
    if how == "put_fresh":  # nobody looks for the name before the call returns
        assert events[2:] == ["name", "sync bytes", "sync .", "sync t", "sync t/1"]
    else:
        assert events[2:] == ["sync bytes", "sync .", "sync t", "name", "sync t/1"]


def test_a_killed_writer_leaves_only_a_temporary(local: Store, folder: Path) -> None:
    program = """
import sys
from moulin.storage import open_store
with open_store(sys.argv[1]).writer("t/1/x.parquet") as file:
    for _ in range(5):
        file.write(b"x" * 1_000_000)
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    left = [*local.list()]
    assert [paths.is_temporary(info.path) for info in left] == [True]
    assert left[0].path.startswith("t/1/.x.parquet.")
    assert left[0].size == 5_000_000
    local.delete(info.path for info in left)
    local.remove_empty_folders()
    assert [*folder.iterdir()] == []


def test_empty_folders_are_removed_and_others_kept(local: Store, folder: Path) -> None:
    local.put("t/1/a/x", b"")
    local.put("t/2/x", b"")
    local.put("u/1/x", b"")
    local.delete(["t/1/a/x", "u/1/x"])
    local.remove_empty_folders("t")
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")) == [
        "t",
        "t/2",
        "t/2/x",
        "u",
        "u/1",
    ]
    local.remove_empty_folders("gone")
    local.delete(["t/2/x"])
    local.remove_empty_folders()
    assert folder.is_dir()
    assert [*folder.iterdir()] == []


def test_a_sweep_of_empty_folders_does_not_break_writers(local: Store) -> None:
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            local.remove_empty_folders()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for number in range(50):
            local.put(f"t/{number % 3}/x", b"%d" % number)
            local.delete([f"t/{number % 3}/x"])
    finally:
        done.set()
        sweeper.join()


def test_a_listing_survives_files_that_come_and_go(local: Store, folder: Path) -> None:
    done = threading.Event()
    local.put("t/stays", b"")

    def churn() -> None:
        while not done.is_set():
            (folder / "t/goes").write_bytes(b"x")
            (folder / "t/goes").unlink()

    churner = threading.Thread(target=churn)
    churner.start()
    try:
        for _ in range(200):
            assert {info.path for info in local.list()} - {"t/goes"} == {"t/stays"}
    finally:
        done.set()
        churner.join()


def test_a_listing_does_not_follow_links_to_folders(local: Store, folder: Path, tmp_path: Path) -> None:
    local.put("a", b"")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    (folder / "broken").symlink_to(folder / "gone")
    assert [info.path for info in local.list()] == ["a"]


def test_a_listing_shows_strange_names_of_others(local: Store, folder: Path) -> None:
    for name in (b"back\\slash", b"new\nline", b"\xff", b"a b%20#"):
        inner = os.path.join(os.fsencode(folder), name)
        os.mkdir(inner)
        with open(os.path.join(inner, name), "wb"):
            pass
    listed = {os.fsencode(info.path) for info in local.list()}
    assert listed == {b"back\\slash/back\\slash", b"new\nline/new\nline", b"\xff/\xff", b"a b%20#/a b%20#"}


def test_a_folder_works_in_a_forked_child(local: Store, folder: Path) -> None:
    program = """
import os, sys
from moulin.storage import open_store
store = open_store(sys.argv[1])
store.put("a", b"before")
if os.fork() == 0:
    store.put("b", store.get("a") + b" and after")
else:
    os.wait()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(folder)], check=True, timeout=60)
    assert local.get("b") == b"before and after"


def test_a_link_whose_answer_was_lost_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server of files does that is asked again after it lost its answer."""
    link, store = os.link, open_store(tmp_path / "lake")

    def link_and_lose(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_and_lose)
    store.put_if_absent("a", b"mine")
    assert store.get("a") == b"mine"
    with pytest.raises(AlreadyExists):
        store.put_if_absent("a", b"mine")
