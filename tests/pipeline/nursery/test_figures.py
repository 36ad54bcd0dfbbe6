"""What a nursery shows of itself: lag and backlog by stream, batches, gaps, and Spark that is still starting."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import moulin
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.pipeline.nursery import nursery as module
from moulin.pipeline.nursery.nursery import Nursery
from moulin.pipeline.nursery.warm_up import WarmUp
from moulin.storage import paths
from moulin.table.runner import LocalRunner
from tests.pipeline.nursery.test_nursery import Writer, bodies, embedded, logs

__all__ = ["embedded"]


def figures(nursery: Nursery) -> dict[str, dict[str, float]]:
    """The value of each metric, by stream ("" for none). Every metric has a HELP."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(nursery.figures.text()):
        assert family.documentation, family.name
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("stream", "")] = sample.value
    return found


def test_lag_and_backlog_are_told_by_stream_and_gone_after_the_batch(embedded: tuple[Lake, str]) -> None:
    lake, token = embedded
    one, two = Writer(lake, token, "one"), Writer(lake, token, "two")
    for writer, count in ((one, 3), (two, 1)):
        for n in range(count):
            writer.send(logs(f"r{n}"))
    nursery = Nursery(lake, spark=False)
    nursery._pending(lake.own_catalog().ingest.stream_list())
    before = figures(nursery)
    assert before["moulin_nursery_backlog_objects"] == {str(one.id): 3, str(two.id): 1}
    stored = sum(info.size for info in lake.store.list(paths.stream_prefix(one.id)))
    assert before["moulin_nursery_backlog_bytes"][str(one.id)] == stored
    until(lambda: figures(nursery)["moulin_nursery_lag_seconds"][str(one.id)] > 0)  # it grows without another look
    nursery.run_once()
    after = figures(nursery)
    for name in ("backlog_objects", "backlog_bytes", "lag_seconds", "stuck"):
        assert set(after[f"moulin_nursery_{name}"].values()) == {0}, name
    assert after["moulin_nursery_rows_total"] == {"": 4}
    assert after["moulin_nursery_batch_seconds_count"] == after["moulin_nursery_batches_total"] == {"": 1}
    assert after["moulin_nursery_batch_seconds_sum"][""] > 0


def test_records_set_aside_and_failed_batches_are_counted(
    embedded: tuple[Lake, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, token = embedded
    writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
    writer.send(logs("good"), b"\xff\xff no protobuf")

    def dies(work: Any) -> Any:
        raise ValueError("bad luck")

    with monkeypatch.context() as patch:
        patch.setattr(module, "mill", dies)
        with pytest.raises(ValueError, match="bad luck"):
            nursery.run_once()
    nursery.run_once()
    found = figures(nursery)
    assert found["moulin_nursery_batch_failures_total"] == {"": 1}
    assert found["moulin_nursery_set_aside_records_total"] == {"": 1}


def test_a_batch_that_takes_a_part_leaves_the_rest_as_backlog(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", nursery_batch_bytes=1) as lake:
        token = set_up(lake).token
        assert token is not None
        writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
        for n in range(3):
            writer.send(logs(f"r{n}"))
        assert nursery.run_once().more
        assert figures(nursery)["moulin_nursery_backlog_objects"] == {str(writer.id): 2}


def test_a_stream_with_a_missing_number_is_announced_and_counted_as_stuck_and_not_ended(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", stream_timeout=0.0) as lake:
        token = set_up(lake).token
        assert token is not None
        writer, said = Writer(lake, token), list[str]()
        nursery = Nursery(lake, spark=False, announce=said.append)
        for n in range(3):
            writer.send(logs(f"r{n}"))
        path = paths.baby_segment(writer.id, 1)
        lost = lake.store.get(path)
        lake.store.delete([path])
        nursery.run_once()
        for _ in range(3):
            assert nursery.run_once().stopped == 0, "later records were acknowledged: the stream has not ended"
        found = figures(nursery)
        assert found["moulin_nursery_stuck"] == {str(writer.id): 1}
        assert found["moulin_nursery_gap_offset"] == {str(writer.id): 1}
        assert found["moulin_nursery_backlog_objects"] == {str(writer.id): 1}, "what waits behind the gap"
        assert found["moulin_nursery_lag_seconds"][str(writer.id)] >= 0
        [announced] = said
        for part in (
            str(writer.id),
            "baby segment 1 is missing",
            path,
            f"moulin ingest skip {writer.id} 1",
            "stuck for",
        ):
            assert part in announced
        lake.store.put(path, lost)
        nursery.run_once()
        assert bodies(lake) == Counter(["r0", "r1", "r2"])
        assert "continues" in said[1]
        assert figures(nursery)["moulin_nursery_stuck"].get(str(writer.id), 0) == 0


class SlowSpark:
    """A Spark whose session takes until `ready` to start, and then runs slices here."""

    def __init__(self, fails: bool = False) -> None:
        self.ready, self.asked, self.fails = threading.Event(), threading.Event(), fails
        self.ran = 0
        self._up = False

    def session(self) -> None:
        self.asked.set()
        self.ready.wait(60)
        if self.fails:
            raise OSError("no Java here")
        self._up = True

    def runner(self) -> Any:
        return self if self._up else None

    def map(self, kernel: Callable[[Any], Any], slices: Any, **options: Any) -> list[Any]:
        self.ran += 1
        return list(LocalRunner().map(kernel, slices))

    def close(self) -> None:
        self.ready.set()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_batches_go_on_in_this_process_while_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with moulin.connect(tmp_path / "lake", nursery_local_bytes=1) as lake:
        token = set_up(lake).token
        assert token is not None
        spark, said = SlowSpark(), list[str]()
        lake.context._spark = spark  # type: ignore[assignment]
        writer, nursery = Writer(lake, token), Nursery(lake, announce=said.append)
        for n in range(2):
            writer.send(logs(f"r{n}"))
            assert nursery.run_once().rows == 1
        assert spark.asked.wait(60)
        assert (spark.ran, len(said)) == (0, 1)
        assert "Spark is starting" in said[0]
        spark.ready.set()
        until(lambda: len(said) == 2)
        assert "Spark has started" in said[1]
        writer.send(logs("r2"))
        assert nursery.run_once().rows == 1
        assert spark.ran == 1
        assert bodies(lake) == Counter(["r0", "r1", "r2"])


def test_a_spark_that_does_not_start_is_announced_and_not_tried_at_every_batch() -> None:
    spark, said = SlowSpark(fails=True), list[str]()
    spark.ready.set()
    warm = WarmUp(lambda: spark, said.append)  # type: ignore[arg-type, return-value]
    assert warm.runner() is None
    until(lambda: len(said) == 2)
    assert "no Java here" in said[1]
    until(lambda: warm._thread is None)
    assert warm.runner() is None
    assert len(said) == 2
