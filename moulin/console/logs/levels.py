"""Levels of log records: OpenTelemetry's severity numbers by fours, and the words of senders that give no number."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.console.telemetry import column
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import Compare, Condition, IsNull, conjunction, disjunction, membership
from moulin.model.schema.values import Schema
from moulin.model.where.conditions import one_of
from moulin.model.where.formula import changed_case
from moulin.model.where.literal import Literal

LEVELS: Final = ("trace", "debug", "info", "warn", "error", "fatal")
UNKNOWN: Final = "unknown"
ALL: Final = (*LEVELS, UNKNOWN)
COLUMNS: Final = ("severity_number", "severity_text")
_NUMBERS: Final = 24
_WORDS: Final = MappingProxyType(
    {
        "trace": ("trace", "trc", "finest", "finer", "verbose"),
        "debug": ("debug", "dbg", "fine"),
        "info": ("info", "information", "informational", "notice", "i"),
        "warn": ("warn", "warning", "wrn", "w"),
        "error": ("error", "err", "severe", "e"),
        "fatal": ("fatal", "critical", "crit", "panic", "alert", "emerg", "emergency"),
    }
)
_LEVEL_OF: Final = {word: level for level, words in _WORDS.items() for word in words}


def parse_level(word: str) -> str | None:
    """The level that a word names; None when it names none."""
    found = word.lower()
    return found if found == UNKNOWN else _LEVEL_OF.get(found)


def at_least(level: str, operator: str) -> tuple[str, ...]:
    """The levels that compare with one as an operator says."""
    place = LEVELS.index(level)
    return {
        ">": LEVELS[place + 1 :],
        ">=": LEVELS[place:],
        "<": LEVELS[:place],
        "<=": LEVELS[: place + 1],
        "=": (level,),
    }[operator]


def has_level(schema: Schema, levels: Collection[str]) -> Condition:
    """The rows of any of these levels."""
    number, word = column(schema, "severity_number"), column(schema, "severity_text")
    without = disjunction([IsNull(number, False), Compare(number, "<", 1), Compare(number, ">", _NUMBERS)])
    known = [level for level in LEVELS if level in levels]
    numbers = [4 * LEVELS.index(level) + step for level in known for step in range(1, 5)]
    found: list[Condition] = [membership(number, numbers)] if numbers else []
    lower = changed_case("lower", word)
    words = [one for level in known for one in _WORDS[level]]
    if words:
        found.append(conjunction([without, one_of(lower, [_literal(one) for one in words])]))
    if UNKNOWN in levels:
        others = one_of(lower, [_literal(one) for one in _LEVEL_OF], negated=True)
        found.append(conjunction([without, disjunction([IsNull(word, False), others])]))
    return disjunction(found)


def _literal(text: str) -> Literal:
    return Literal(text, f"'{text}'")


def level_numbers(rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row the place of its level in `ALL`."""
    numbers = np.asarray(pc.fill_null(rows.column("severity_number"), 0)).astype(np.int64)
    found = (numbers - 1) // 4
    outside = (numbers < 1) | (numbers > _NUMBERS)
    if outside.any():
        texts = pa.concat_arrays([pa.array([], pa.string()), *rows.column("severity_text").chunks])
        coded = pc.utf8_lower(texts.filter(pa.array(outside))).dictionary_encode()
        places = [_place(one) for one in coded.dictionary.to_pylist()]
        indices = np.asarray(coded.indices.fill_null(len(places))).astype(np.int64)
        found[outside] = np.asarray([*places, len(LEVELS)], np.int64)[indices]
    return found


def _place(word: str) -> int:
    level = _LEVEL_OF.get(word)
    return len(LEVELS) if level is None else LEVELS.index(level)


def level_names(rows: pa.Table) -> Sequence[str]:
    return [ALL[place] for place in level_numbers(rows).tolist()]
