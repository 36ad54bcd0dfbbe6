"""Records in order: pages, newest first, one record by id, and its context.

Records have no key. A record is identified by its time and a digest of its content; records of one nanosecond are
ordered by digest. So a page can end between any two records, even after a compaction.
"""

# Decisions: docs/decisions/0567

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from moulin.console.logs.levels import level_names
from moulin.console.logs.question import Question
from moulin.console.telemetry import GoOn, Moment, Times, nanos
from moulin.errors import NotFound
from moulin.model.rows.nano_datetime import to_rows

COLUMNS: Final = (
    "severity_number",
    "severity_text",
    "service_name",
    "event_name",
    "body",
    "trace_id",
    "span_id",
    "attributes",
)
"""What a list shows of a record, and what its digest is made of."""
MOST_OF_A_TIME: Final = 10_000
"""Records of one nanosecond that are told apart; others of that time are left out."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `values` are its columns by name."""

    time: int
    digest: str
    level: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Between two records: those of `time` with a digest up to this one come before it."""

    time: int
    digest: str


def newest(
    moment: Moment, question: Question, *, limit: int, go_on: GoOn, after: Place | None = None
) -> tuple[list[Record], bool]:
    """The newest records, those behind `after` in the order of pages; and whether there are more."""
    if after is not None:
        question = question.between(None, after.time + 1)
    ties = [] if after is None else _of_time(moment, question, after.time, go_on)
    if after is not None:
        question = question.between(None, after.time)
    found = [one for one in ties if after is None or one.digest > after.digest]
    if len(found) <= limit:
        found += _first(moment, question, limit + 1 - len(found), go_on)
    return found[:limit], len(found) > limit


def oldest(moment: Moment, question: Question, *, limit: int, go_on: GoOn) -> list[Record]:
    """The oldest records of a range, in the order of pages: the newest of them first."""
    rows = moment.first(question.of(moment), COLUMNS, limit=limit, go_on=go_on, newest=False)
    return _in_order(records_of(rows))[-limit:]


def find(moment: Moment, time: int, digest: str, go_on: GoOn) -> Record:
    """A record with all its columns. NotFound when it is gone."""
    names = [field.name for field in moment.schema.fields]
    asked = Question(time, time + 1).of(moment)
    rows = moment.first(asked, names, limit=MOST_OF_A_TIME, go_on=go_on)
    shown = records_of(rows.select([*COLUMNS, *moment.time_columns]))
    for index, one in enumerate(shown):
        if one.digest == digest:
            (values,) = to_rows(rows.slice(index, 1), pairs=True)
            return Record(one.time, digest, one.level, values)
    raise NotFound("This record no longer exists: it was deleted, or its table was cleaned up.")


def around(
    moment: Moment, question: Question, place: Place, *, before: int, after: int, go_on: GoOn
) -> tuple[list[Record], list[Record]]:
    """The records before one in time, and those after it; both newest first. The record itself is in neither."""
    same = _of_time(moment, question, place.time, go_on)
    earlier = [one for one in same if one.digest > place.digest]
    earlier += _first(moment, question.between(None, place.time), max(before - len(earlier), 0), go_on)
    later = oldest(moment, question.between(place.time + 1, None), limit=after, go_on=go_on) if after else []
    later += [one for one in same if one.digest < place.digest]
    return earlier[:before], later[len(later) - after :] if after else []


def records_of(rows: pa.Table) -> list[Record]:
    """Rows with the columns of a list, in their order."""
    times: Times = nanos(rows)
    found = to_rows(rows.select(list(COLUMNS)), pairs=True)
    return [
        Record(time, _digest(values), level, values)
        for time, level, values in zip(times.tolist(), level_names(rows), found, strict=True)
    ]


def _first(moment: Moment, question: Question, limit: int, go_on: GoOn) -> list[Record]:
    """The first records of a question. Those of the last time are all looked at, for any of them may be the last."""
    if limit <= 0:
        return []
    rows = moment.first(question.of(moment), COLUMNS, limit=limit, go_on=go_on)
    if rows.num_rows < limit:
        return _in_order(records_of(rows))
    times = nanos(rows)
    last = int(times[-1])
    kept = records_of(rows.slice(0, int(np.searchsorted(-times, -last, side="left"))))
    return (_in_order(kept) + _of_time(moment, question, last, go_on))[:limit]


def _of_time(moment: Moment, question: Question, time: int, go_on: GoOn) -> list[Record]:
    asked = question.between(time, time + 1).of(moment)
    return _in_order(records_of(moment.first(asked, COLUMNS, limit=MOST_OF_A_TIME, go_on=go_on)))


def _in_order(found: Sequence[Record]) -> list[Record]:
    return sorted(found, key=lambda one: (-one.time, one.digest))


def _digest(values: dict[str, Any]) -> str:
    """Of what a record says, the same before and after it is committed."""
    said = json.dumps([values[name] for name in COLUMNS], ensure_ascii=True, default=_as_text, separators=(",", ":"))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def _as_text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


__all__ = ["COLUMNS", "MOST_OF_A_TIME", "Place", "Record", "around", "find", "newest", "oldest", "records_of"]
