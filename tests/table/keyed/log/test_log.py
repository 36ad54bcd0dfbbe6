"""What every log promises, whatever it lies on; then what only one of the two has."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moulin.errors import Closed, Corrupt, FailedPrecondition, Fenced, InvalidInput, Unavailable
from moulin.formats.log_entry import encode_fence
from moulin.formats.log_object import LogObject, decode_object, encode_object
from moulin.storage import Store, open_store, paths
from moulin.table.keyed.log.local_log import LOCK_FILE, LocalLog
from moulin.table.keyed.log.log import Log
from moulin.table.keyed.log.log_reader import StoreLogReader
from moulin.table.keyed.log.store_log import StoreLog

TABLE = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
REGION = 3


class Place:
    """A place for one log; opens it under ever higher epochs, closing the one before unless told not to."""

    def __init__(self, make: Callable[..., Log]) -> None:
        self.make = make
        self.epoch = 0
        self.opened: list[Log] = []

    def open(self, *, covered: int = 0, keep_others: bool = False, **options: Any) -> Log:
        if not keep_others:
            self.close()
        self.epoch += 1
        log = self.make(epoch=self.epoch, covered=covered, **options)
        self.opened.append(log)
        return log

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def owner(self) -> int:
        return self.epoch


def local_place(folder: Path) -> Place:
    return Place(
        lambda epoch, covered, small=False, **options: LocalLog(
            folder, TABLE, REGION, epoch, covered=covered, **({"file_bytes": 32_768} if small else {}), **options
        )
    )


def store_place(store: Store) -> Place:
    place = Place(
        lambda epoch, covered, small=False, **options: StoreLog(
            store, TABLE, REGION, epoch, place.owner, covered=covered, **options
        )
    )
    return place


@pytest.fixture(params=["local", "store", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        found = local_place(tmp_path / "deep" / "log")
    elif request.param == "store":
        found = store_place(open_store(tmp_path / "lake"))
    else:
        found = store_place(open_store(request.getfixturevalue("s3_url"), request.getfixturevalue("s3_options")))
    yield found
    found.close()


def write(log: Log, *payloads: bytes) -> list[tuple[int, bytes]]:
    written = [(log.append(payload), payload) for payload in payloads]
    log.commit(log.last)
    return written


def test_entries_come_back_in_order_after_reopening(place: Place) -> None:
    log = place.open()
    assert list(log.replay(0)) == []
    written = write(log, b"one", b"two" * 30_000, b"three")
    start = written[0][0]
    assert [position for position, _ in written] == [start, start + 1, start + 2]
    assert log.last == start + 2
    log = place.open()
    assert list(log.replay(0)) == written
    assert list(log.replay(start)) == written[1:]
    assert list(log.replay(log.last)) == []
    more = write(log, b"four")
    assert more[0][0] > written[-1][0]
    log = place.open()
    assert list(log.replay(0)) == written + more


def test_many_are_appended_as_one(place: Place) -> None:
    log = place.open()
    before = log.last
    payloads = [bytes([n]) * (n * 997 % 40_000 + 1) for n in range(60)]
    assert log.append_many(payloads) == before + 60
    assert log.append_many([]) == before + 60
    log.commit(before + 60)
    assert list(place.open().replay(before)) == list(enumerate(payloads, before + 1))


def test_positions_go_on_over_reopenings_without_entries(place: Place) -> None:
    log = place.open()
    written = write(log, b"one")
    for _ in range(3):
        log = place.open()
    assert log.last >= written[0][0]
    more = write(log, b"two")
    assert list(place.open().replay(0)) == written + more


def test_trimmed_entries_are_gone_and_the_rest_is_not(place: Place) -> None:
    log = place.open(small=True)
    written = [write(log, bytes([n]) * 20_000)[0] for n in range(20)]
    log.trim(written[9][0])
    assert list(log.replay(written[9][0])) == written[10:]
    with pytest.raises(Corrupt, match="lacks the entries from position"):
        list(log.replay(0))
    log = place.open(small=True, covered=written[9][0])
    assert list(log.replay(written[9][0])) == written[10:]
    log.trim(log.last)
    last = log.last
    log = place.open(covered=last)
    assert log.last >= last, "a log that was trimmed to its end still knows where that is"
    more = write(log, b"next")
    assert list(place.open().replay(last)) == more


def test_a_log_that_was_lost_goes_on_behind_what_is_covered(place: Place) -> None:
    log = place.open(covered=100)
    written = write(log, b"one")
    assert written[0][0] > 100
    log = place.open(covered=written[0][0] + 50)
    more = write(log, b"two")
    assert more[0][0] > written[0][0] + 50
    log = place.open(covered=written[0][0] + 50)
    assert list(log.replay(written[0][0] + 50)) == more


def test_a_closed_log_takes_nothing(place: Place) -> None:
    log = place.open()
    write(log, b"one")
    log.close()
    log.close()
    for attempt in (lambda: log.append(b"x"), lambda: log.append_many([b"x"])):
        with pytest.raises(Closed, match="open the table again"):
            attempt()


def test_what_was_never_appended_cannot_be_committed(place: Place) -> None:
    log = place.open()
    with pytest.raises(InvalidInput, match="cannot be committed"):
        log.commit(log.last + 1)
    with pytest.raises(InvalidInput, match="at least one byte"):
        log.append(b"")
    assert write(log, b"x")


def test_threads_share_one_order(place: Place) -> None:
    log = place.open()
    before = log.last
    written: dict[int, bytes] = {}
    errors: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for n in range(12):
                payload = b"%d/%d" % (thread, n) + bytes(n * 700)
                position = log.append(payload)
                log.commit(position)
                written[position] = payload
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(written) == list(range(before + 1, before + 61))
    assert list(place.open().replay(before)) == sorted(written.items())


# Only on a local disk.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.wal"))


def test_the_second_opener_is_fenced_and_told_who_has_it(folder: Path) -> None:
    log = LocalLog(folder, TABLE, REGION, 1)
    try:
        with pytest.raises(Fenced, match=f"open in process {os.getpid()}: close it there"):
            LocalLog(folder, TABLE, REGION, 2)
        code = (
            "import sys; from pathlib import Path; from uuid import UUID\n"
            "from moulin.table.keyed.log.local_log import LocalLog\n"
            f"LocalLog(Path(sys.argv[1]), UUID('{TABLE}'), {REGION}, 2)"
        )
        other = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
        assert f"Fenced: The log {folder} is open in process {os.getpid()}" in other.stderr
        assert (folder / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    finally:
        log.close()
    LocalLog(folder, TABLE, REGION, 2).close()


def test_an_older_epoch_and_a_foreign_folder_are_refused(folder: Path) -> None:
    LocalLog(folder, TABLE, REGION, 5).close()
    with pytest.raises(Fenced, match="epoch 4, but found epoch 5"):
        LocalLog(folder, TABLE, REGION, 4)
    for table, region in ((uuid.uuid4(), REGION), (TABLE, REGION + 1)):
        with pytest.raises(FailedPrecondition, match="it is in the wrong place"):
            LocalLog(folder, table, region, 6)
    LocalLog(folder, TABLE, REGION, 6).close()


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_files_are_rotated(folder: Path, sync: Any) -> None:
    place = local_place(folder)
    log = place.open(sync=sync, small=True)
    written = [write(log, bytes([n]) * 9_000)[0] for n in range(30)]
    place.close()
    assert 6 <= len(files(folder)) <= 10
    assert all(file.stat().st_size < 2 * 32_768 for file in files(folder))
    assert list(place.open().replay(0)) == written
    place.close()


@pytest.mark.parametrize("left", [0, 1, 7, 60, 30_000])
def test_a_torn_tail_is_cut_once_and_the_log_goes_on(folder: Path, left: int) -> None:
    place = local_place(folder)
    written = write(place.open(), b"a" * 100, b"b" * 100, b"c" * 70_000)
    place.close()
    file = files(folder)[-1]
    torn = file.stat().st_size - 70_000 + left
    os.truncate(file, torn)
    log = place.open()
    assert log.last == 2
    assert file.stat().st_size < torn
    assert list(log.replay(0)) == written[:2]
    again = write(log, b"d")
    assert again == [(3, b"d")]
    assert list(place.open().replay(0)) == [*written[:2], *again]
    place.close()


def test_damage_is_refused_with_file_and_offset_and_nothing_is_changed(folder: Path) -> None:
    place = local_place(folder)
    written = [write(place.open(), b"first file %d" % n, b"more of it")[0] for n in range(3)]
    write(place.open(), b"one" * 50, b"two" * 50)
    place.close()
    newest, older = files(folder)[-1], files(folder)[1]
    good = newest.read_bytes()
    newest.write_bytes(good.replace(b"oneone", b"oneOne", 1))
    for _ in range(2):
        with pytest.raises(Corrupt, match=rf"{newest} is damaged at byte 52: valid data follows at byte \d+"):
            place.open()
    newest.write_bytes(good)
    older.write_bytes(older.read_bytes()[:-1])
    log = place.open(covered=0)
    with pytest.raises(Corrupt, match=rf"{older} is damaged at byte \d+: it is not the last file"):
        list(log.replay(written[0][0]))
    older.unlink()
    with pytest.raises(Corrupt, match=rf"{older} has disappeared"):
        list(log.replay(0))
    with pytest.raises(Corrupt, match="lacks the entries from position 3 to 4"):
        list(place.open().replay(0))
    place.close()


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_room_that_was_allocated_ahead_is_given_back(folder: Path, sync: Any) -> None:
    """Small entries go into memory that is the file's own; large ones are written; the file shows both in order."""
    place = local_place(folder)
    log = place.open(sync=sync, interval_seconds=1000)
    written = [write(log, bytes([n % 251]) * (2_000_000 if n % 400 == 7 else n % 90 + 1))[0] for n in range(1_000)]
    newest = files(folder)[-1]
    size = newest.stat().st_size
    assert size > sum(len(payload) for _, payload in written) + 100_000, "there is room for what comes next"
    dead = folder.with_name("dead")
    shutil.copytree(folder, dead)  # as if the process died now
    place.close()
    assert newest.stat().st_size < size
    log = LocalLog(dead, TABLE, REGION, 2)
    assert list(log.replay(0)) == written == list(place.open().replay(0))
    assert (dead / newest.name).read_bytes() == newest.read_bytes(), "what follows the last entry was cut"
    log.close()
    place.close()


def test_leftovers_of_a_killed_process_are_removed(folder: Path) -> None:
    place = local_place(folder)
    written = write(place.open(), b"one")
    place.close()
    leftover = folder / paths.temporary(paths.local_log_file(2), "0123456789abcdef")
    leftover.write_bytes(b"MW")
    assert list(place.open().replay(0)) == written
    assert not leftover.exists()
    place.close()


def swap(log: LocalLog, device: str) -> None:
    """Puts a device that fails under the log, as if the disk had failed."""
    fd = os.open(device, os.O_WRONLY)
    os.dup2(fd, log._current.fd)
    os.close(fd)


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_failed_write_ends_the_log(folder: Path, length: int) -> None:
    log = LocalLog(folder, TABLE, REGION, 1)
    written = write(log, b"one")
    swap(log, "/dev/full")
    with pytest.raises(Unavailable, match=r"could not be written \(No space left on device\).*open the table again"):
        log.append(b"x" * length)
    for attempt in (lambda: log.append(b"y"), lambda: log.append_many([b"y"])):
        with pytest.raises(Unavailable, match="No space left"):
            attempt()
    log.commit(written[0][0])
    log.close()
    with pytest.raises(Closed):
        log.append(b"y")
    log = LocalLog(folder, TABLE, REGION, 2)
    assert list(log.replay(0)) == written
    log.close()


def test_a_failed_sync_acknowledges_nothing_ever_after(folder: Path) -> None:
    log = LocalLog(folder, TABLE, REGION, 1)
    written = write(log, b"one")
    swap(log, "/dev/null")  # takes writes, and refuses to sync
    position = log.append(b"two")
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be synced"):
            log.commit(position)
    with pytest.raises(Unavailable, match="could not be synced"):
        log.append(b"three")
    log.close()
    log = LocalLog(folder, TABLE, REGION, 2)
    assert list(log.replay(0)) == written
    log.close()


def test_waiters_of_a_failed_sync_all_learn_of_it(folder: Path) -> None:
    log = LocalLog(folder, TABLE, REGION, 1)
    swap(log, "/dev/null")
    told: list[str] = []

    def work() -> None:
        try:
            log.commit(log.append(b"x"))
        except Unavailable as error:
            told.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert len(told) == 6


def test_an_idle_log_is_synced_after_its_interval(folder: Path) -> None:
    log = LocalLog(folder, TABLE, REGION, 1, sync="interval", interval_seconds=0.01)
    position = log.append(b"one")
    log.commit(position)
    end = time.monotonic() + 20
    while log._synced < position and time.monotonic() < end:
        time.sleep(0.01)
    assert log._synced == position
    log.close()


def test_a_failed_sync_in_the_background_is_told_to_the_next_writer(folder: Path) -> None:
    log = LocalLog(folder, TABLE, REGION, 1, sync="interval", interval_seconds=0.01)
    swap(log, "/dev/null")
    log.append(b"one")
    end = time.monotonic() + 20
    while log._death is None and time.monotonic() < end:
        time.sleep(0.01)
    with pytest.raises(Unavailable, match="could not be synced"):
        log.append(b"two")
    with pytest.raises(Unavailable, match="could not be synced"):
        log.commit(1)
    log.close()


def test_only_always_waits_for_the_disk(folder: Path) -> None:
    for epoch, sync in enumerate(("never", "interval"), 1):
        log = LocalLog(folder, TABLE, REGION, epoch, sync=sync, interval_seconds=1000)  # type: ignore[arg-type]
        swap(log, "/dev/null")
        log.commit(log.append(b"one"))
        with pytest.raises(Unavailable, match="could not be synced"):
            log.close()
    with pytest.raises(InvalidInput, match="'always', 'interval'"):
        LocalLog(folder, TABLE, REGION, 9, sync="sometimes")  # type: ignore[arg-type]


def test_callers_who_wait_together_share_a_sync(folder: Path) -> None:
    """While one sync runs, others wait; the next one is for all of them. Seen by the marks that syncs leave."""
    log = LocalLog(folder, TABLE, REGION, 1)
    log._sync_lock.acquire()
    positions = [log.append(b"x%d" % n) for n in range(8)]
    threads = [threading.Thread(target=log.commit, args=(position,)) for position in positions]
    for thread in threads:
        thread.start()
    with log._syncing(held=True):
        pass
    for thread in threads:
        thread.join()
    size = files(folder)[0].stat().st_size
    log.append(b"end")
    assert files(folder)[0].stat().st_size - size == 7 + 8 + 7 + 3, "one mark and one entry"
    assert log._synced == positions[-1]
    log.close()


FILLING = """
import resource, signal, sys
from pathlib import Path
from uuid import UUID
from moulin.errors import Unavailable
from moulin.table.keyed.log.local_log import LocalLog

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = LocalLog(Path(sys.argv[1]), UUID(sys.argv[2]), 3, 1, sync=sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    while True:
        position = log.append(b"x" * 900)
        log.commit(position)
        print(position, flush=True)
except Unavailable as error:
    print("refused:", error, flush=True)
try:
    log.append(b"y")
except Unavailable:
    print("still refused", flush=True)
"""


@pytest.mark.parametrize("sync", ["always", "never"])
def test_a_disk_that_fills_up_in_the_middle_of_an_entry_loses_nothing_acknowledged(folder: Path, sync: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FILLING, folder, str(TABLE), sync], capture_output=True, text=True, check=True
    )
    *acknowledged, refused, still = run.stdout.splitlines()
    assert refused.startswith("refused: The log")
    assert "File too large" in refused
    assert still == "still refused"
    assert files(folder)[0].stat().st_size == 50_000, "the last write was cut short"
    log = LocalLog(folder, TABLE, REGION, 2)
    assert [position for position, _ in log.replay(0)] == [int(line) for line in acknowledged]
    assert log.append(b"again") == int(acknowledged[-1]) + 1
    log.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FailedPrecondition, match=r"cannot be opened \(File exists\): make its folder writable"):
        LocalLog(tmp_path / "file" / "log", TABLE, REGION, 1)
    with pytest.raises(FailedPrecondition, match="cannot be opened"):
        LocalLog(Path("/proc/moulin-log"), TABLE, REGION, 1)


READ_ONLY = """
import os, sys
from pathlib import Path
from uuid import UUID
from moulin.errors import MoulinError
from moulin.table.keyed.log.local_log import LocalLog

if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
try:
    LocalLog(Path(sys.argv[1]), UUID(sys.argv[2]), 3, 2)
except MoulinError as error:
    print(type(error).__name__, error)
"""


def test_a_read_only_folder_is_refused_and_left_alone(folder: Path) -> None:
    log = LocalLog(folder, TABLE, REGION, 1)
    written = write(log, b"one")
    log.close()
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(0o555 if parent == folder else parent.stat().st_mode | 0o055)
    run = subprocess.run(
        [sys.executable, "-c", READ_ONLY, folder, str(TABLE)], capture_output=True, text=True, check=True
    )
    folder.chmod(0o755)
    assert run.stdout.startswith("FailedPrecondition The log")
    assert "Permission denied" in run.stdout
    log = LocalLog(folder, TABLE, REGION, 2)
    assert list(log.replay(0)) == written
    log.close()


def test_an_interrupt_in_a_write_ends_the_log(folder: Path) -> None:
    """Nobody knows whether the entry is in the file, so neither may the next position be given away."""
    log = LocalLog(folder, TABLE, REGION, 1)
    written = write(log, b"one")
    reader, writer = os.pipe()
    os.set_blocking(writer, True)
    kept = os.dup(log._current.fd)
    os.dup2(writer, log._current.fd)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            log.append(b"x" * 20_000)  # until the pipe is full
    timer.join()
    with pytest.raises(Unavailable, match=r"could not be written \(KeyboardInterrupt\)"):
        log.append(b"y")
    log.close()
    for fd in (reader, writer, kept):
        os.close(fd)
    log = LocalLog(folder, TABLE, REGION, 2)
    assert list(log.replay(0)) == written
    log.close()


# Only in a store.


class Flaky:
    """A store between which and the caller answers get lost, or which is away. Everything else is the real one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lose_answers = 0
        self.lose_requests = 0
        self.away = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, path: str) -> bytes:
        if self.away:
            raise Unavailable("away")
        return self._store.get(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        if self.away:
            raise Unavailable("away")
        if self.lose_requests:
            self.lose_requests -= 1
            raise Unavailable("lost on its way")
        self._store.put_if_absent(path, data)
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("its answer was lost")


@pytest.fixture
def flaky(tmp_path: Path) -> Flaky:
    return Flaky(open_store(tmp_path / "lake"))


def stored(store: Any) -> dict[int, LogObject]:
    found = {}
    for info in store.list(paths.log_prefix(TABLE, REGION)):
        parsed = paths.parse_log_object(info.path)
        assert parsed is not None
        found[parsed[2]] = decode_object(store.get(info.path), source=info.path)
    return found


def test_a_stale_writer_collides_with_the_fence(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    old = place.open()
    kept = write(old, b"one")
    position = old.append(b"two")
    new = place.open(keep_others=True)
    for _ in range(2):
        with pytest.raises(Fenced, match="epoch 1, but found an object of epoch 2 under the name of its own"):
            old.commit(position)
    with pytest.raises(Fenced):
        old.append(b"three")
    more = write(new, b"by the new one")
    assert list(place.open().replay(0)) == kept + more
    place.close()


def test_a_stale_writer_that_lands_in_trimmed_space_is_neither_acknowledged_nor_read(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    old = place.open()
    write(old, b"one")
    old.append_many([b"stale %d" % n for n in range(30)])
    new = place.open(keep_others=True)
    last = write(new, b"a", b"b", b"c")[-1]
    new.trim(last[0])
    with pytest.raises(Fenced, match="epoch 1, but found that epoch 2 owns the region"):
        old.commit(old.last)
    assert any(b"stale 0" in found.entries for found in stored(flaky).values()), "it did land"
    log = place.open(covered=last[0])
    assert log.last == last[0] + 1
    assert list(log.replay(last[0])) == []
    log.trim(last[0])
    assert min(stored(flaky)) > last[0] - 3, "and is swept with the next trim"
    place.close()


def test_a_claim_lists_what_came_since_it_looked(flaky: Flaky, monkeypatch: pytest.MonkeyPatch) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    reader = StoreLogReader(flaky, TABLE, REGION)  # type: ignore[arg-type]
    log = place.open()
    written, looks, covered = list[tuple[int, bytes]](), [reader.firsts()], 0
    for number in range(12):
        written += write(log, b"%d" % number)
        looks.append(reader.firsts())
        if number == 6:
            covered = written[4][0]
            log.trim(covered)
    listed: list[str] = []
    real = flaky._store.list

    def spy(prefix: str = "", after: str = "") -> Iterator[Any]:
        listed.append(after)
        return real(prefix, after)

    monkeypatch.setattr(flaky._store, "list", spy)
    for known in ([], *looks):
        listed.clear()
        claimed = place.open(covered=covered, known=known)
        assert listed == [reader.path(known[-1]) if known else ""]
        assert list(claimed.replay(covered)) == [one for one in written if one[0] > covered]
        written += write(claimed, b"by epoch %d" % place.epoch)
    claimed.trim(claimed.last)
    assert len(stored(flaky)) <= 2, "what was known and is gone already is no matter"
    place.close()


def test_a_claim_that_comes_too_late_is_refused_and_harmless(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    written = write(place.open(), b"one")
    place.epoch = 7
    written += write(place.open(), b"two")
    place.close()
    with pytest.raises(Fenced, match="epoch 3, but found that epoch 8 owns"):
        StoreLog(flaky, TABLE, REGION, 3, place.owner)  # type: ignore[arg-type]
    with pytest.raises(Fenced, match="epoch 3, but found an object of epoch 8"):
        StoreLog(flaky, TABLE, REGION, 3, lambda: 3)  # type: ignore[arg-type]
    late = LogObject(TABLE, REGION, 3, max(stored(flaky)) + 1, bytes(16), (encode_fence(3),))
    flaky.put_if_absent(paths.log_object(TABLE, REGION, late.first), encode_object(late))
    log = place.open()
    written += write(log, b"three")
    assert list(place.open().replay(0)) == written
    place.close()


def test_a_lost_answer_is_no_failure(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    log = place.open()
    flaky.lose_answers = 1
    written = write(log, b"one")
    flaky.lose_requests = 2
    written += write(log, b"two")
    flaky.lose_answers = 1
    log = place.open()
    assert list(log.replay(0)) == written
    assert [found.epoch for _, found in sorted(stored(flaky).items())] == [1, 1, 1, 2]
    place.close()


def test_a_store_that_stays_away_ends_the_log(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    log = place.open()
    written = write(log, b"one")
    position = log.append(b"two")
    flaky.away = True
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"could not be written \(away\).*open the table again"):
            log.commit(position)
    flaky.away = False
    with pytest.raises(Unavailable, match="accepts no more writes"):
        log.append(b"three")
    log.commit(written[0][0])
    assert list(place.open().replay(0)) == written
    place.close()


def test_nothing_is_acknowledged_while_the_epoch_is_unknown(flaky: Flaky) -> None:
    answers: list[int | None] = [1, 1]

    def check() -> int:
        found = answers.pop(0)
        if found is None:
            raise Unavailable("no catalog")
        return found

    log = StoreLog(flaky, TABLE, REGION, 1, check)  # type: ignore[arg-type]
    position = log.append(b"one")
    answers += [None, 1, 2]
    with pytest.raises(Unavailable, match="no catalog"):
        log.commit(position)
    log.commit(position)
    with pytest.raises(Fenced, match="epoch 2 owns the region"):
        log.commit(log.append(b"two"))
    log.close()


def test_those_who_wait_together_share_an_object(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    log = place.open()
    log.append_many([b"a", b"b"])
    log.append(b"c")
    log.commit(log.last)
    log.append(b"d")
    log.commit(log.last)
    assert [found.entries for _, found in sorted(stored(flaky).items())][1:] == [(b"a", b"b", b"c"), (b"d",)]
    place.close()


def test_appends_go_out_without_a_commit_once_they_are_many(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    log = place.open(object_bytes=1000)
    for _ in range(9):
        log.append(b"x" * 120)
    assert sum(len(found.entries) for found in stored(flaky).values()) == 1 + 9
    log.append(b"y")
    place.close()
    assert max(found.last for found in stored(flaky).values()) == 11, "and the rest when it is closed"


def test_damaged_and_missing_objects_are_named(flaky: Flaky) -> None:
    place = store_place(flaky)  # type: ignore[arg-type]
    log = place.open()
    for n in range(4):
        write(log, b"%d" % n)
    path = paths.log_object(TABLE, REGION, 3)
    good = flaky.get(path)
    flaky.put(path, good[:-1])
    with pytest.raises(Corrupt, match=f"{path} is damaged"):
        list(log.replay(0))
    flaky.put(path, flaky.get(paths.log_object(TABLE, REGION, 4)))
    with pytest.raises(Corrupt, match=f"{path} belongs to region 3 .* it is in the wrong place"):
        list(log.replay(0))
    flaky.delete([path])
    log = place.open()
    with pytest.raises(Corrupt, match="lacks the entries from position 3 to 3"):
        list(log.replay(0))
    flaky.put(path, good)
    stale = LogObject(TABLE, REGION, 1, log.last + 1, bytes(16), (b"stale",))
    place.close()
    flaky.put(paths.log_object(TABLE, REGION, stale.first), encode_object(stale))
    newer = LogObject(TABLE, REGION, 2, stale.last + 1, bytes(16), (b"newer",))
    flaky.put(paths.log_object(TABLE, REGION, newer.first), encode_object(newer))
    older = LogObject(TABLE, REGION, 1, newer.last + 1, bytes(16), (b"older",))
    flaky.put(paths.log_object(TABLE, REGION, older.first), encode_object(older))
    with pytest.raises(Corrupt, match="written under epoch 1, after one of epoch 2"):
        list(place.open().replay(0))
    place.close()
