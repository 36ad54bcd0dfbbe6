"""The callbacks of one DuckDB connection: return the SELECT of a table at a version, with the segments that a statement
needs.

`FROM query(moulin_select_x(...))` is a table: DuckDB evaluates the argument when it plans a statement, and inserts the
returned SELECT. An argument of the function is the dry plan of the statement (`asked`), which DuckDB makes while it
evaluates the arguments, of the text that `moulin_text_x` returns (`dry_plans`).
"""

# Decisions: docs/decisions/0262, docs/decisions/0263, docs/decisions/0275

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.duck.columns import quoted_text
from moulin.duck.select import deleted_rows, no_rows, not_to_run, select_text
from moulin.errors import Closed, FailedPrecondition, InvalidInput
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.names import parse_table_name
from moulin.model.rows.numbers import int64_array
from moulin.sized_cache import SizedCache
from moulin.table.pins import Hold
from moulin.table.read.quarantine import refuse_quarantined

if TYPE_CHECKING:
    from moulin.duck.dry_plans import DryPlans
    from moulin.duck.files import LakeFiles

PRUNING = "moulin_pruning"
"""The variable of DuckDB that is set to false to read all segments."""
DECLARES = "moulin_declares"
"""The variable of DuckDB that is true while views are made, for which columns are enough."""

_TEXTS = 32 << 20  # bytes of SELECTs that a connection keeps
_STATES = 256  # tables at a version that a connection keeps
_WORN = 256  # segments with deleted rows, a file each; a statement that asks for more reads all of the table
_PLANNED_APART = "DuckDB planned this statement before it was run: run it with execute(), without executemany()."
_ID = re.compile("[0-9a-f-]{36}")
_NUMBERS = itertools.count(1)


class Source:
    """Writes the SELECTs of a connection, and holds the versions that it reads.

    It lives as long as the connection or a cursor of it, because DuckDB holds the functions.
    """

    def __init__(self, lake: Lake, folder: Path | None = None) -> None:
        """What is not in storage is written to a folder of its own, which is below `folder` if that is given."""
        number = next(_NUMBERS)
        self.select_name, self.text_name = f"moulin_select_{number}", f"moulin_text_{number}"
        self.closed = False
        self.version = -1
        self.branches: set[str] = set()
        self.failures: Mapping[UUID, Exception] = {}
        self.current: dict[UUID, Hold] = {}
        self.lock = threading.RLock()
        self.lake = lake
        self.files: LakeFiles | None = None
        self.read: dict[tuple[UUID, int], int] = {}
        """How many segments statements were given of tables that are asked for when a statement is planned."""
        self._older: dict[tuple[UUID, int], Hold] = {}
        self._texts: SizedCache[tuple[UUID, int], str] = SizedCache(_TEXTS, len)
        self._states: SizedCache[tuple[UUID, int], TableState] = SizedCache(_STATES)
        self._made_dry_plans: DryPlans | None = None
        self._below = folder
        self._folder: Path | None = None
        self._files = itertools.count()
        self._worn: dict[tuple[str, int], str] = {}

    def call(self, name: str, version: str = "NULL", moment: str = "NULL") -> str:
        """The SQL of a SELECT that DuckDB asks for when it plans a statement."""
        number = "current_query_id()"
        wanted = f"{number} < {2**64 - 1} AND TRY_CAST(getvariable('{PRUNING}') AS BOOLEAN) IS DISTINCT FROM false"
        text = f"{self.text_name}({number}, CASE WHEN {wanted} THEN current_query() END)"
        plan = f"json_serialize_plan({text}, optimize := true)"
        return f"{self.select_name}({name}, {version}, {moment}, {plan})"

    def call_table(self, state: TableState) -> str:
        """The query that a view of a table is; it is made without a call."""
        return asked_late(no_rows(state.schema), self.call(quoted_text(str(state.id)), str(state.version)))

    @property
    def _dry_plans(self) -> DryPlans:
        with self.lock:
            if self._made_dry_plans is None:
                from moulin.duck.dry_plans import DryPlans  # brings along what a connection to small tables never needs

                self._made_dry_plans = DryPlans()
            return self._made_dry_plans

    # What DuckDB calls

    def text(self, number: int, text: str | None) -> str | None:
        """The text to make a dry plan of; None when none is wanted, or there is one."""
        return self._dry_plans.begin(number, text)

    def select(self, name: str | None, version: int | None, moment: int | None, plan: str | None) -> str:
        """The SELECT of one table: of a view, by its id, or of `moulin_table`, by its name."""
        call = self._dry_plans.end(plan)
        with self.lock:
            state = self._state(name, version, moment)
            if call == "stand-in":
                return self._dry_plans.stand_in(state)
            if call == "columns":
                return not_to_run(state.schema, _PLANNED_APART)
            return self._rows(state)

    def _state(self, name: str | None, version: int | None, moment: int | None) -> TableState:
        if self.closed:
            raise Closed("The lake was closed; connect again.")
        if name is None:
            raise InvalidInput("moulin_table needs the name of a table: moulin_table('database.table').")
        if version is not None and moment is not None:
            raise InvalidInput("Give moulin_table either version or as_of, not both.")
        catalog = self.lake.catalog
        if version is not None and _ID.fullmatch(name):
            key = UUID(name), version
            state = self._states.get(key, lambda: catalog.table_by_id(*key))
        else:
            asked_for = version if moment is None else catalog.version_at(moment)
            state = catalog.table(*parse_table_name(name), self.version if asked_for is None else asked_for)
        if state.version == self.version and state.id in self.failures:
            raise self.failures[state.id]
        return state

    def _rows(self, state: TableState) -> str:
        key = state.id, state.version
        if (state.id not in self.current or state.version != self.version) and key not in self._older:
            self._older[key] = self.lake.context.pins.hold(*key)
        segments = self._dry_plans.segments(self.lake.context, state)
        if segments is None or sum(segment.vector is not None for segment in segments) > _WORN:
            self.read.pop(key, None)
            return self.every_row(state)
        self.read[key] = len(segments)
        return select_text(
            state, segments, self._locate, self._address, lambda worn: [self._keep_one(one) for one in worn]
        )

    def forget_texts(self) -> None:
        """Forget which files versions have: rows may have been erased from them since."""
        with self.lock:
            self._texts.clear()
            self._states.clear()

    def every_row(self, state: TableState) -> str:
        """The SELECT of all rows of a version."""
        return self._texts.get((state.id, state.head_version), lambda: self._write(state))

    def _write(self, state: TableState) -> str:
        refuse_quarantined(self.lake.catalog, state)
        segments = self.lake.catalog.segments(state.id, state.version, with_columns=False)
        return select_text(state, segments, self._locate, self._address, self._keep)

    def _locate(self, facts: SegmentFacts) -> str:
        if facts.inline is not None:
            file = self._scratch() / f"segment-{facts.number}.parquet"
            if not file.exists():
                file.write_bytes(facts.inline)
            return str(file)
        if facts.adopted is not None:
            if self.files is None:
                raise FailedPrecondition("A table has adopted files since: update the connection with lake.duckdb(c).")
            return self.files.adopted(facts)
        return self._address(facts.path)

    def _address(self, path: str) -> str:
        local = self.lake.context.store.local_path(path)
        if local is not None:
            return str(local)
        from moulin.duck.files import address

        return address(path)

    def _keep_one(self, segment: LiveSegment) -> str:
        """Other statements ask for the segment beside others, so its deleted rows have a file of their own."""
        assert segment.vector is not None
        key = segment.vector.path, segment.vector.offset
        found = self._worn.get(key)
        if found is None:
            [found] = self._keep([segment])
            self._worn[key] = found
        return found

    def _scratch(self) -> Path:
        """A folder for what is not in storage."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="moulin-duckdb-", dir=self._below))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _keep(self, segments: Sequence[LiveSegment]) -> Sequence[str]:
        file = self._scratch() / f"{next(self._files)}.parquet"
        rows = deleted_rows(self.lake.context, segments)
        pq.write_table(pa.Table.from_arrays([int64_array(rows)], ["row"]), file)
        return [str(file)]


def asked_late(columns: str, call: str) -> str:
    """A query that is the result of `call` when a statement is planned, and `columns` while views are made."""
    return f"FROM query(CASE WHEN getvariable('{DECLARES}') THEN {quoted_text(columns)} ELSE {call} END)"
