"""Background work of a keyed table: a thread that flushes memtables, and one that compacts segments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from moulin.errors import Closed, Conflict, Corrupt, Fenced, MoulinError, NotFound, Unavailable
from moulin.table.keyed.region import RegionWriter

_RETRY = 0.2


class Background:
    """The threads of one table. They start with its first region, and end with `end`.

    `flush` commits what the writer of a region has ready. `compact` runs due compactions, and returns whether there
    were any. Permanent errors of a flush go to the writer.
    """

    def __init__(
        self,
        writers: Callable[[], Sequence[RegionWriter]],
        flush: Callable[[RegionWriter], None],
        compact: Callable[[], bool],
    ) -> None:
        self.ending = False  # then no region can be opened, and the threads end
        self._writers, self._flush, self._compact = writers, flush, compact
        self._work = threading.Event()
        self._compaction_due = threading.Event()
        self._failures: dict[RegionWriter, int] = {}  # in a row
        self._flusher: threading.Thread | None = None
        self._compactor: threading.Thread | None = None

    def start(self, tick: float, *, compacts: bool, threads: int = 1) -> None:
        """Start the threads if necessary. Regions are checked every `tick` seconds, and when woken.

        At most `threads` of them are flushed at once.
        """
        if self._flusher is None:
            self._flusher = threading.Thread(
                target=self._flush_loop, args=(tick, threads), name="moulin-flush", daemon=True
            )
            self._flusher.start()
        if self._compactor is None and compacts:
            self._compactor = threading.Thread(target=self._compact_loop, name="moulin-compact", daemon=True)
            self._compactor.start()

    def wake(self) -> None:
        """Flush soon."""
        self._work.set()

    def compact_soon(self) -> None:
        """Check for due compactions."""
        self._compaction_due.set()

    def end(self) -> None:
        """End the threads, and wait for them."""
        self.ending = True
        self._work.set()
        self._compaction_due.set()
        for thread in (self._flusher, self._compactor):
            if thread is not None and thread is not threading.current_thread():
                thread.join()
        self._flusher = self._compactor = None

    def each(self, flush: Callable[[RegionWriter], None], writers: Sequence[RegionWriter], threads: int) -> None:
        """Flush writers, at most `threads` at once; raises the first error when all are done."""
        if min(threads, len(writers)) < 2:
            for writer in writers:
                flush(writer)
            return
        with ThreadPoolExecutor(min(threads, len(writers)), thread_name_prefix="moulin-flush") as pool:
            started = []
            for writer in writers:
                try:
                    started.append(pool.submit(flush, writer))
                except RuntimeError:  # the interpreter is ending, and starts no thread
                    flush(writer)
        for one in started:
            one.result()

    def _flush_loop(self, tick: float, threads: int) -> None:
        while not self.ending:
            self._work.wait(tick)
            self._work.clear()
            self.each(self._try_flush, self._writers(), threads)

    def _try_flush(self, writer: RegionWriter) -> None:
        try:
            self._flush(writer)
            self._failures.pop(writer, None)
        except (Fenced, NotFound, Corrupt, Closed) as error:
            writer.fail(error)
        except Exception as error:  # noqa: BLE001 - whatever it is: writers are told, and it is tried again
            failures = self._failures[writer] = self._failures.get(writer, 0) + 1
            if failures >= 5:
                writer.fail(error if isinstance(error, MoulinError) else _broken(error))
            if not self.ending:
                time.sleep(min(_RETRY * 2**failures, 5.0))
                self._work.set()

    def _compact_loop(self) -> None:
        while not self.ending:
            self._compaction_due.wait(1.0)
            if not self._compaction_due.is_set() or self.ending:
                continue
            self._compaction_due.clear()
            try:
                if self._compact():
                    self._compaction_due.set()
            except Conflict:
                continue  # conflict with an overwrite or restore: the next check sees the newer version
            except MoulinError:
                time.sleep(_RETRY)


def _broken(error: Exception) -> MoulinError:
    return Unavailable(f"Puts cannot be flushed ({error}); they are in the log. Fix the cause, or reopen the table.")
