"""Children of `moulin up`: what they print is kept in logs of bounded size."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from moulin.cli.services import supervisor
from moulin.cli.services.supervisor import Child, Supervisor


def test_a_log_that_has_grown_large_is_moved_aside_while_its_child_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOG_BYTES", 1000)
    script = "import sys, time\nfor n in range(2000):\n    print(n, flush=True)\n    n % 20 or time.sleep(0.01)\n"
    child = Child("talker", ["-c", script], tmp_path / "talker.log", dict(os.environ))
    tended = Supervisor([child])
    tended.start()
    try:
        largest = 0
        while child.is_alive:
            tended.tend()
            largest = max(largest, child.log.stat().st_size)
            time.sleep(0.005)
    finally:
        tended.stop()
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"talker.log", "talker.log.1", "talker.log.2", "talker.log.3"}
    assert largest < 9000, "all that was printed"
    kept = [int(line) for number in (3, 2, 1) for line in (tmp_path / f"talker.log.{number}").read_text().split()]
    kept += [int(line) for line in child.log.read_text().split()]
    assert kept == sorted(kept)
    assert kept[-1] == 1999
    assert kept[0] > 0, "the oldest lines are gone"
    assert "\0" not in child.log.read_text(), "it goes on at the new end"


def test_the_last_line_is_found_without_reading_the_log(tmp_path: Path) -> None:
    child = Child("quiet", ["-c", ""], tmp_path / "quiet.log", {})
    assert child.last_line() == ""
    child.log.write_text("x" * 5000 + "\nlast\n")
    assert child.last_line() == "last"
