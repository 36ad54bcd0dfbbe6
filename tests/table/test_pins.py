"""The thread that renews and releases pins."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import moulin
from moulin.table.pins import Pins


def test_closing_a_lake_ends_the_thread_that_was_about_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = moulin.connect(tmp_path / "lake")
    lake.create_database("shop")
    table = lake.create_table("shop.t", [("id", "long")])
    pins, step, stepped, go_on = lake.context.pins, Pins._step, threading.Event(), threading.Event()

    def slowly(self: Pins) -> float | None:
        pause = step(self)
        stepped.set()
        go_on.wait()
        return pause

    monkeypatch.setattr(Pins, "_step", slowly)
    pins.release_later(pins.hold(table.id, table.version))
    assert stepped.wait(60)
    closing = threading.Thread(target=lake.close, daemon=True)
    closing.start()
    while pins._thread is not None:
        time.sleep(0.001)
    go_on.set()
    closing.join(60)
    assert not closing.is_alive()
