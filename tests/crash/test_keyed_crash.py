"""kill -9 of the writer of a keyed table, wherever it is: what was acknowledged is there once, and nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake

SCHEMA = [("id", "long", False), ("mark", "long")]
SMALL = {"memtable_bytes": "2000", "level0_trigger": "2", "log_file_bytes": "40000"}


class Writers:
    """Starts writers, one after the other, and kills them."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.keyed_writer"]
        root = Path(__file__).parents[2]
        env = {**os.environ, "PYTHONPATH": str(root)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=env
        )

    def run(self, address: Path, seed: int, seconds: float, options: dict[str, str], *, early: bool) -> list[list[str]]:
        """What a writer said until it was killed, some time after its first acknowledged write, or after its start."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{address}\t{seed}\t{json.dumps(options)}\n")
        self._process.stdin.flush()
        pid, said, killed = 0, [], False
        for line in self._process.stdout:
            words = line.split()
            if words[0] == "pid":
                pid = int(words[1])
            elif words[0] == "dead":
                return said
            else:
                said.append(words)
            if pid and not killed and (early or any(word[0] == "ok" for word in said)):
                time.sleep(seconds)
                os.kill(pid, signal.SIGKILL)
                killed = True
        raise AssertionError("the process that starts writers died")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture
def writers() -> Iterator[Writers]:
    found = Writers()
    yield found
    found.close()


class Expected:
    """What the table may hold: for each key the last acknowledged write, or a later one that was tried."""

    def __init__(self) -> None:
        self.sure: dict[int, int | None] = {}
        self.maybe: tuple[str, int, list[int]] | None = None
        self.acknowledged = 0

    def hear(self, said: list[list[str]]) -> None:
        tried: tuple[str, int, list[int]] | None = None
        for verb, *rest in said:
            assert verb != "failed", rest
            if verb == "try":
                tried = (rest[0], int(rest[1]), [int(key) for key in rest[2:]])
            elif verb == "ok":
                assert tried is not None
                assert tried[1] == int(rest[0])
                self._apply(tried)
                self.acknowledged += 1
                tried = None
        self.maybe = tried

    def _apply(self, write: tuple[str, int, list[int]]) -> None:
        kind, mark, keys = write
        for key in keys:
            self.sure[key] = None if kind == "delete" else mark

    def settle(self, found: dict[int, int]) -> None:
        """Check what is there, and take the write that was under way as done or as never done."""
        if self.maybe is not None:
            kind, mark, keys = self.maybe
            wanted = None if kind == "delete" else mark
            done = [found.get(key) == wanted for key in keys]
            if all(done):
                self._apply(self.maybe)
            elif kind != "delete":
                assert not any(done), f"a batch is whole or not there: {self.maybe} in {found}"
            self.maybe = None
        assert found == {key: mark for key, mark in self.sure.items() if mark is not None}


def read(lake: Lake) -> dict[int, int]:
    """The rows by every way to read them, with what only the log has."""
    table = lake.table("shop.t")
    found = table.scan().to_pylist()
    marks = {row["id"]: row["mark"] for row in found}
    assert len(marks) == len(found), "each key is there once"
    keys = list(range(-1, 61))
    assert {row["id"]: row["mark"] for row in table.get_many(keys) if row is not None} == marks
    table.flush()
    flushed = table.at(version=lake.version).scan().to_pylist()
    assert {row["id"]: row["mark"] for row in flushed} == marks
    assert len(flushed) == len(marks)
    return marks


def kill_again_and_again(tmp_path: Path, writers: Writers, kills: int, options: dict[str, str], seed: int) -> None:
    root = tmp_path / f"lake{seed}"
    settings = SMALL | {key: value for key, value in options.items() if key != "divides"}
    options = SMALL | options
    with Lake.open(root) as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", SCHEMA, primary_key=["id"])
    source, expected, late = random.Random(seed), Expected(), 0
    for turn in range(kills):
        early = source.random() < 0.2
        late += not early
        said = writers.run(root, seed * 1000 + turn, source.uniform(0, 0.4) ** 1.5, options, early=early)
        expected.hear(said)
        with Lake.open(root, settings=settings) as lake:
            expected.settle(read(lake))
    with Lake.open(root, settings=settings) as lake:
        assert check(lake.catalog) == []
        for _ in range(2):
            collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
        expected.settle(read(lake))
    assert expected.acknowledged >= late > 0, "whoever was not killed at its start had written something by then"


CASES = [
    {"log_sync": "always"},
    {"log_sync": "never"},
    {"log_sync": "interval", "log_interval": "0.01"},
    {"log_folder": "store"},
]


@pytest.mark.sample(1)
@pytest.mark.crash
@pytest.mark.parametrize("options", CASES, ids=lambda options: "-".join(options.values()))
def test_a_killed_writer_loses_nothing(tmp_path: Path, writers: Writers, options: dict[str, str]) -> None:
    kill_again_and_again(tmp_path, writers, 13, options, CASES.index(options) + 1)


@pytest.mark.sample(1)
@pytest.mark.crash
@pytest.mark.parametrize("options", [CASES[0], CASES[3]], ids=lambda options: "-".join(options.values()))
def test_a_writer_that_is_killed_while_keys_are_divided_otherwise_loses_nothing(
    tmp_path: Path, writers: Writers, options: dict[str, str]
) -> None:
    kill_again_and_again(tmp_path, writers, 13, {**options, "divides": "yes"}, CASES.index(options) + 71)


@pytest.mark.crash
@pytest.mark.long
@pytest.mark.parametrize("options", CASES, ids=lambda options: "-".join(options.values()))
def test_a_thousand_kills_lose_nothing_that_was_acknowledged(
    tmp_path: Path, writers: Writers, options: dict[str, str]
) -> None:
    for seed in range(10, 20):
        kill_again_and_again(tmp_path, writers, 25, options, seed + 10 * CASES.index(options))
