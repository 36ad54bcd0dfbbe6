r"""Parses a subset of LogQL.

    query    = log | metric
    metric   = aggregate | range
    aggregate = ("sum" | "min" | "max" | "avg" | "count") [ by ] "(" range ")" [ by ]
    by       = ("by" | "without") "(" [ label { "," label } ] ")"
    range    = ("count_over_time" | "rate" | "bytes_over_time" | "bytes_rate") "(" log "[" duration "]" ")"
    log      = "{" [ matcher { "," matcher } ] "}" { stage }
    stage    = ("|=" | "!=" | "|~" | "!~") text { "or" text }
             | "|" filter { ("and" | "," | "or") filter } | "|" "drop" "__error__"
    matcher  = label ("=" | "!=" | "=~" | "!~") text
    filter   = matcher | label ("==" | "!=" | ">" | ">=" | "<" | "<=") number

The rest of LogQL raises InvalidInput with the column.
"""

# Decisions: docs/decisions/0661

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from moulin.console.words import Words
from moulin.errors import InvalidInput

_MOST: Final = 50
SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
    "d": 86400 * SECOND, "w": 7 * 86400 * SECOND, "y": 365 * 86400 * SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ns|us|µs|ms|s|m|h|d|w|y)")
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|`[^`]*`)|(?P<duration>\[[^\]]{1,40}\])"""
    r"""|(?P<sign>\|=|\|~|!=|!~|=~|==|>=|<=|[|=(){},<>])|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>-?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?)"""
)
LINE_FILTERS: Final = ("|=", "!=", "|~", "!~")
AGGREGATES: Final = ("sum", "min", "max", "avg", "count")
_EQUAL: Final = ("=", "!=", "=~", "!~")
_NUMERIC: Final = ("==", "=", "!=", ">", ">=", "<", "<=")
RANGES: Final = ("count_over_time", "rate", "bytes_over_time", "bytes_rate")


@dataclass(frozen=True, slots=True)
class Matcher:
    """A label compared with a text, or with a number."""

    label: str
    operator: str
    value: str | float


@dataclass(frozen=True, slots=True)
class LineFilter:
    operator: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """Matchers of which all of one group at least must hold."""

    groups: tuple[tuple[Matcher, ...], ...]


@dataclass(frozen=True, slots=True)
class LogQuery:
    matchers: tuple[Matcher, ...]
    stages: tuple[LineFilter | LabelFilter, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """What a range counts, at each step over the records of the `range` nanoseconds before it."""

    function: str
    log: LogQuery
    range: int
    aggregate: str | None = None
    labels: tuple[str, ...] = ()
    without: bool = False


def parse(text: str) -> LogQuery | RangeQuery:
    """The tree of a query. InvalidInput for what is none, and for what is not served."""
    return _Parser(text, _TOKEN).query()


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The matchers of a stream selector."""
    found = parse(text)
    if not isinstance(found, LogQuery) or found.stages:
        raise InvalidInput('Write a stream selector such as {service_name="cart"}, without stages.')
    return found.matchers


def duration(text: str) -> int:
    """Nanoseconds of a duration such as 5m or 1h30m."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(f"A duration must be a number with ns, us, ms, s, m, h, d, w or y, not {text[:50]!r}.")
    found = sum(int(float(number) * _UNITS[unit]) for number, unit in parts)
    if not 0 < found < 1 << 60:
        raise InvalidInput(f"The duration {text[:50]!r} is too short or too long.")
    return found


class _Parser(Words):
    def query(self) -> LogQuery | RangeQuery:
        found: LogQuery | RangeQuery = self._log() if self.at("{") else self._metric()
        if self.kind != "end":
            self.refuse(
                "only one selector with stages is supported, with at most one range function and one aggregation"
            )
        return found

    def _metric(self) -> RangeQuery:
        if not self.at(*AGGREGATES, *RANGES):
            self.refuse(f"a query begins with {{, {', '.join((*AGGREGATES, *RANGES))}")
        if self.at(*RANGES):
            return self._range()
        name = self.take()
        grouping = self._grouping()
        self.expect("(")
        inner = self._range()
        self.expect(")")
        without, labels = grouping or self._grouping() or (False, ())
        return RangeQuery(inner.function, inner.log, inner.range, name, labels, without)

    def _grouping(self) -> tuple[bool, tuple[str, ...]] | None:
        return (self.take() == "without", self.names()) if self.at("by", "without") else None

    def _range(self) -> RangeQuery:
        if not self.at(*RANGES):
            self.refuse(f"expected one of {', '.join(RANGES)}")
        name = self.take()
        self.expect("(")
        log = self._log()
        if self.kind != "duration":
            self.refuse("a range such as [5m] is missing here")
        size = duration(self.take()[1:-1].strip())
        self.expect(")")
        return RangeQuery(name, log, size)

    def _log(self) -> LogQuery:
        self.expect("{")
        matchers: list[Matcher] = []
        while not self.at("}"):
            matchers.append(self._matcher())
            if not self.taken(","):
                break
        self.expect("}")
        stages: list[LineFilter | LabelFilter] = []
        while self.at("|", *LINE_FILTERS):
            if (found := self._stage()) is not None:
                stages.append(found)
        if len(stages) + len(matchers) > _MOST:
            self.refuse(f"a query has at most {_MOST} matchers and stages")
        return LogQuery(tuple(matchers), tuple(stages))

    def _stage(self) -> LineFilter | LabelFilter | None:
        """The next stage; None for one that changes nothing."""
        if self.at(*LINE_FILTERS):
            operator, texts = self.take(), [self.text()]
            while self.taken("or"):
                texts.append(self.text())
            return LineFilter(operator, tuple(texts))
        self.expect("|")
        if self.taken("drop"):
            if self.name() != "__error__":
                self.refuse("drop is only supported for __error__")
            return None
        if self.following not in (*_EQUAL, *_NUMERIC):
            self.refuse(
                'after | write a filter such as http_route="/cart"; json, logfmt and other stages are not supported'
            )
        return self._filters()

    def _filters(self) -> LabelFilter:
        groups: list[list[Matcher]] = [[self._matcher(numbers=True)]]
        while self.at("and", ",", "or"):
            if self.take() == "or":
                groups.append([])
            groups[-1].append(self._matcher(numbers=True))
        return LabelFilter(tuple(tuple(group) for group in groups))

    def _matcher(self, *, numbers: bool = False) -> Matcher:
        label = self.name()
        if not self.at(*_EQUAL, *(_NUMERIC if numbers else ())):
            self.refuse("compare a label with =, !=, =~ or !~")
        operator = self.take()
        if numbers and self.kind == "number" and operator in _NUMERIC:
            return Matcher(label, "==" if operator == "=" else operator, float(self.take()))
        if operator not in _EQUAL:
            self.refuse(f"a number is missing after {operator}")
        return Matcher(label, operator, self.text())


__all__ = ["LabelFilter", "LineFilter", "LogQuery", "Matcher", "RangeQuery", "duration", "parse", "parse_selector"]
