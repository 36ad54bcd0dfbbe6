"""A keyed table against a plain dict, driven by Hypothesis."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from moulin.lake import Lake
from tests.table.keyed_tables import ITEMS, by_id, plainly, row

KEYS = st.integers(0, 15)
NAMES = st.sampled_from("abc")


class KeyedMachine(RuleBasedStateMachine):
    """Puts, deletes, flushes, compactions and reopening; every version is remembered and looked at again."""

    @initialize()
    def make(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="moulin-model-"))
        self.rows: dict[int, dict[str, Any]] = {}
        self.versions: dict[int, dict[int, dict[str, Any]]] = {}
        self.lake = Lake.open(self.folder / "lake")
        self.lake.create_database("shop")
        self.table = self.lake.create_table("shop.t", ITEMS, primary_key=["id"])

    @rule(key=KEYS, name=NAMES)
    def put(self, key: int, name: str) -> None:
        self.table.put(row(key, name))
        self.rows[key] = row(key, name)

    @rule(keys=st.lists(KEYS, max_size=8), name=NAMES)
    def put_batch(self, keys: list[int], name: str) -> None:
        self.table.put_batch([row(key, name) for key in keys])
        self.rows |= {key: row(key, name) for key in keys}

    @rule(keys=st.lists(KEYS, max_size=4))
    def delete(self, keys: list[int]) -> None:
        self.table.delete_batch(keys)
        for key in keys:
            self.rows.pop(key, None)

    @rule(keys=st.lists(KEYS, max_size=8), name=NAMES)
    def append(self, keys: list[int], name: str) -> None:
        self.table.append([row(key, name) for key in keys])
        self.rows |= {key: row(key, name) for key in keys}

    @rule(keys=st.lists(KEYS, max_size=8), name=NAMES)
    def load(self, keys: list[int], name: str) -> None:
        """As `append`, of rows that count as a bulk load: they are at level 1, where others may overlap them."""
        with patch("moulin.table.write.segment_writer.BULK_BYTES", 1):
            self.append(keys, name)

    @rule()
    def flush(self) -> None:
        self.table.flush()
        self.versions[self.lake.version] = dict(self.rows)
        assert plainly(self.lake, self.table) == self.rows

    @rule(everything=st.booleans())
    def compact(self, everything: bool) -> None:
        self.table.compact(everything=everything)
        self.versions[self.lake.version] = dict(self.rows)

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self.lake = Lake.open(self.folder / "lake")
        self.table = self.lake.table("shop.t")

    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        if self.versions:
            version = data.draw(st.sampled_from(sorted(self.versions)))
            assert by_id(self.table.at(version=version).scan().to_arrow()) == self.versions[version]

    @rule(data=st.data())
    def changes(self, data: st.DataObject) -> None:
        """The feed, applied to the rows of an older version, gives those of a newer one."""
        if len(self.versions) > 1:
            pair = st.lists(st.sampled_from(sorted(self.versions)), min_size=2, max_size=2, unique=True)
            since, until = sorted(data.draw(pair))
            state = dict(self.versions[since])
            for line in self.table.changes(since, until).to_arrow().to_pylist():
                if line["_change_type"] in ("delete", "update_before"):
                    assert state.pop(line["id"])["name"] == line["name"]
                else:
                    assert line["id"] not in state
                    state[line["id"]] = {name: line[name] for name, *_ in ITEMS}
            assert state == self.versions[until]

    @rule(low=KEYS, high=KEYS, reverse=st.booleans())
    def scan(self, low: int, high: int, reverse: bool) -> None:
        found = self.table.scan(start=low, end=high, reverse=reverse).to_pylist()
        keys = sorted((key for key in self.rows if low <= key < high), reverse=reverse)
        assert found == [self.rows[key] for key in keys]

    @invariant()
    def reads_see_writes(self) -> None:
        if hasattr(self, "rows"):
            assert self.table.get_many(list(range(16))) == [self.rows.get(key) for key in range(16)]
            assert self.table.get(3) == self.rows.get(3)

    def teardown(self) -> None:
        if hasattr(self, "lake"):
            self.lake.close()
            shutil.rmtree(self.folder)


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        KeyedMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_keyed_table_is_a_dict() -> None:
    run(5, 15)


@pytest.mark.long
def test_a_keyed_table_is_a_dict_for_long() -> None:
    run(200, 60)
