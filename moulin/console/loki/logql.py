r"""A named part of LogQL, as a tree.

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

Whatever else LogQL has is InvalidInput, which says at which column.
"""

# Decisions: docs/decisions/0661

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, NoReturn

from moulin.errors import InvalidInput
from moulin.model.where.literal import check_unicode

LONGEST: Final = 5000
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
    if len(text) > LONGEST:
        raise InvalidInput(f"A query has at most {LONGEST} characters.")
    check_unicode(text)
    return _Parser(text).query()


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The matchers of a stream selector."""
    found = parse(text)
    if not isinstance(found, LogQuery) or found.stages:
        raise InvalidInput('A stream selector is such as {service_name="cart"}, without stages.')
    return found.matchers


def duration(text: str) -> int:
    """Nanoseconds of a duration such as 5m or 1h30m."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(f"A duration is a number with ns, us, ms, s, m, h, d, w or y, not {text[:50]!r}.")
    found = sum(int(float(number) * _UNITS[unit]) for number, unit in parts)
    if not 0 < found < 1 << 60:
        raise InvalidInput(f"The duration {text[:50]!r} is too short or too long.")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise InvalidInput(
                    f"The query cannot be read at column {at + 1}: {text[at : at + 10]!r} is not served."
                )
            if found.lastgroup != "space":
                self._tokens.append((str(found.lastgroup), found[0], at))
            at = found.end()
        self._tokens.append(("end", "", at))
        self._at = 0

    def query(self) -> LogQuery | RangeQuery:
        found: LogQuery | RangeQuery = self._log() if self._is("{") else self._metric()
        if self._tokens[self._at][0] != "end":
            self._refuse("only one selector with stages, counted at most once and aggregated at most once, is served")
        return found

    def _metric(self) -> RangeQuery:
        kind, name, _ = self._tokens[self._at]
        if kind != "name" or name not in (*AGGREGATES, *RANGES):
            self._refuse(f"a query begins with {{, {', '.join((*AGGREGATES, *RANGES))}")
        if name in RANGES:
            return self._range()
        self._at += 1
        without, labels = self._grouping()
        self._expect("(")
        inner = self._range()
        self._expect(")")
        if without is None:
            without, labels = self._grouping()
        return RangeQuery(inner.function, inner.log, inner.range, name, labels, bool(without))

    def _grouping(self) -> tuple[bool | None, tuple[str, ...]]:
        if not (self._is("by") or self._is("without")):
            return None, ()
        without = self._take() == "without"
        self._expect("(")
        labels: list[str] = []
        while not self._is(")"):
            labels.append(self._name())
            if not self._is(","):
                break
            self._at += 1
        self._expect(")")
        return without, tuple(dict.fromkeys(labels))

    def _range(self) -> RangeQuery:
        kind, name, _ = self._tokens[self._at]
        if kind != "name" or name not in RANGES:
            self._refuse(f"here is one of {', '.join(RANGES)}")
        self._at += 1
        self._expect("(")
        log = self._log()
        kind, text, _ = self._tokens[self._at]
        if kind != "duration":
            self._refuse("a range such as [5m] is missing here")
        self._at += 1
        self._expect(")")
        return RangeQuery(name, log, duration(text[1:-1].strip()))

    def _log(self) -> LogQuery:
        self._expect("{")
        matchers: list[Matcher] = []
        while not self._is("}"):
            matchers.append(self._matcher())
            if not self._is(","):
                break
            self._at += 1
        self._expect("}")
        stages: list[LineFilter | LabelFilter] = []
        while self._is("|") or any(self._is(one) for one in LINE_FILTERS):
            if (found := self._stage()) is not None:
                stages.append(found)
        if len(stages) + len(matchers) > _MOST:
            self._refuse(f"a query has at most {_MOST} matchers and stages")
        return LogQuery(tuple(matchers), tuple(stages))

    def _stage(self) -> LineFilter | LabelFilter | None:
        """The next stage; None for one that changes nothing."""
        if any(self._is(one) for one in LINE_FILTERS):
            operator = self._take()
            texts = [self._text()]
            while self._is("or"):
                self._at += 1
                texts.append(self._text())
            return LineFilter(operator, tuple(texts))
        self._at += 1
        if self._is("drop"):
            self._at += 1
            if self._name() != "__error__":
                self._refuse("drop is served for __error__ alone")
            return None
        if self._tokens[self._at + 1][1] not in ("=", "!=", "=~", "!~", "==", ">", ">=", "<", "<="):
            self._refuse(
                'after | comes a filter such as http_route="/cart"; json, logfmt and other stages are not served'
            )
        return self._filters()

    def _filters(self) -> LabelFilter:
        groups: list[list[Matcher]] = [[self._matcher(numbers=True)]]
        while self._is("and") or self._is(",") or self._is("or"):
            if self._take() == "or":
                groups.append([])
            groups[-1].append(self._matcher(numbers=True))
        return LabelFilter(tuple(tuple(group) for group in groups))

    def _matcher(self, *, numbers: bool = False) -> Matcher:
        label, operator = self._name(), self._take()
        kind, text, _ = self._tokens[self._at]
        if numbers and kind == "number" and operator in ("==", "=", "!=", ">", ">=", "<", "<="):
            self._at += 1
            return Matcher(label, "==" if operator == "=" else operator, float(text))
        if operator not in ("=", "!=", "=~", "!~"):
            self._at -= 1
            self._refuse("a label is compared by =, !=, =~ or !~")
        return Matcher(label, operator, self._text())

    def _text(self) -> str:
        kind, text, at = self._tokens[self._at]
        if kind != "text":
            self._refuse("a text in quotes is missing here")
        self._at += 1
        if text[0] == "`":
            return text[1:-1]
        try:
            found: str = json.loads(text.replace("\\'", "'").replace("\t", "\\t"))
        except ValueError:
            raise InvalidInput(
                f"The query cannot be read at column {at + 1}: this text has an unknown escape."
            ) from None
        check_unicode(found)
        return found

    def _name(self) -> str:
        kind, text, _ = self._tokens[self._at]
        if kind != "name":
            self._refuse("the name of a label is missing here")
        self._at += 1
        return text

    def _is(self, text: str) -> bool:
        kind, found, _ = self._tokens[self._at]
        return kind in ("sign", "name") and found == text

    def _take(self) -> str:
        found = self._tokens[self._at][1]
        if self._tokens[self._at][0] != "end":
            self._at += 1
        return found

    def _expect(self, text: str) -> None:
        if not self._is(text):
            self._refuse(f"{text} is missing here")
        self._at += 1

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInput(f"The query cannot be read at column {self._tokens[self._at][2] + 1}: {why}.")


__all__ = ["LabelFilter", "LineFilter", "LogQuery", "Matcher", "RangeQuery", "duration", "parse", "parse_selector"]
