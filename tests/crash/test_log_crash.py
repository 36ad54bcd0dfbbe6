"""kill -9 of the writer of a log: every acknowledged entry is there once, in order, and none that was never written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

from moulin.table.keyed.log.local_log import LocalLog

TABLE = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")

WRITER = """
import random, sys, threading
from pathlib import Path
from uuid import UUID
from moulin.table.keyed.log.local_log import LocalLog

run = int(sys.argv[3])
sync = ("always", "interval", "never")[run % 3]
log = LocalLog(Path(sys.argv[1]), UUID(sys.argv[2]), 0, run, sync=sync, interval_seconds=0.02, file_bytes=100_000)

def work(thread):
    source = random.Random(run * 10 + thread)
    number = 0
    while True:
        number += 1
        name = b"%d.%d.%d:" % (run, thread, number)
        payload = name + bytes([number % 256]) * source.choice([1, 100, 5_000, 80_000])
        position = log.append(payload)
        log.commit(position)
        sys.stdout.write(f"{position} {name.decode()} {len(payload)}\\n")
        sys.stdout.flush()
        if source.random() < 0.02:
            log.trim(position - 400)

for thread in range(3):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.crash
def test_a_killed_writer_loses_no_acknowledged_entry(tmp_path: Path) -> None:
    seconds = random.Random(11)
    acknowledged: dict[int, tuple[str, int]] = {}
    known: dict[int, bytes] = {}
    for run in range(1, 11):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "log"), str(TABLE), str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline()]  # it works: now kill it somewhere
            time.sleep(seconds.uniform(0, 0.15))
            os.kill(writer.pid, signal.SIGKILL)
            said += writer.stdout.read().splitlines(keepends=True)
        for line in said:
            if line.endswith("\n"):
                position, name, length = line.split()
                assert int(position) not in acknowledged, "no position is given twice"
                acknowledged[int(position)] = (name, int(length))
        log = LocalLog(tmp_path / "log", TABLE, 0, run)
        try:
            first = int(min((tmp_path / "log").glob("*.wal")).stem)
            found = list(log.replay(first - 1))
            assert [position for position, _ in found] == list(range(first, log.last + 1))
            assert first <= max(acknowledged) <= log.last
            for position, payload in found:
                assert known.setdefault(position, payload) == payload, "an entry never changes"
                name, _, rest = payload.partition(b":")
                number = int(name.split(b".")[2])
                assert rest == bytes([number % 256]) * len(rest), "whole, and as it was written"
                if position in acknowledged:
                    assert acknowledged[position] == (f"{name.decode()}:", len(payload))
            names = [payload.partition(b":")[0] for payload in known.values()]
            assert len(names) == len(set(names)), "each entry is there once"
            assert log.last - max(acknowledged) <= 3, "at most what the three writers had not yet reported"
        finally:
            log.close()
