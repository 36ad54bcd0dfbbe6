r"""Parses a subset of PromQL.

    expression = unary { operator [ "bool" ] [ ("on" | "ignoring") labels ] unary }
    operator   = "^" | "*" | "/" | "%" | "+" | "-" | "==" | "!=" | ">" | "<" | ">=" | "<="     binding as in PromQL
    unary      = [ "-" | "+" ] ( number | "(" expression ")" | aggregate | call | selector )
    aggregate  = ("sum" | "avg" | "min" | "max" | "count") [ by ] "(" expression ")" [ by ]
               | ("topk" | "bottomk") [ by ] "(" number "," expression ")" [ by ]
    by         = ("by" | "without") labels
    call       = function "(" [ expression { "," expression } ] ")"
    selector   = ( name [ "{" matchers "}" ] | "{" matchers "}" ) [ "[" duration "]" ] [ "offset" [ "-" ] duration ]

The rest of PromQL raises InvalidInput with the column.
"""

# Decisions: docs/decisions/0662

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from moulin.console.words import Words
from moulin.errors import InvalidInput

_DEEPEST: Final = 30
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`)"""
    r"""|(?P<duration>(?:\d{1,9}(?:ms|[smhdwy]))+)(?![A-Za-z0-9_])"""
    r"""|(?P<number>(?:0x[0-9a-fA-F]{1,15}|(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,3})?))"""
    r"""|(?P<sign>=~|!~|==|!=|>=|<=|[-+*/%^(){}\[\],=<>])|(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)"""
)
_UNITS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}
_PART: Final = re.compile(r"(\d+)(ms|[smhdwy])")
AGGREGATES: Final = ("sum", "avg", "min", "max", "count", "topk", "bottomk")
WINDOWS: Final = (
    "rate", "increase", "delta", "irate", "idelta", "avg_over_time", "min_over_time", "max_over_time", "sum_over_time",
    "count_over_time", "last_over_time", "present_over_time",
)  # fmt: skip
PLAIN: Final = ("abs", "ceil", "floor", "sqrt", "exp", "ln", "log2", "log10")
FUNCTIONS: Final = (*WINDOWS, *PLAIN, "clamp_min", "clamp_max", "histogram_quantile", "time", "vector")
_BINDING: Final = {
    "==": 1, "!=": 1, ">": 1, "<": 1, ">=": 1, "<=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "%": 3, "^": 5,
}  # fmt: skip
_UNARY: Final = 4
COMPARISONS: Final = ("==", "!=", ">", "<", ">=", "<=")


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Selector:
    """Series by their labels; with a `range`, their samples in that many milliseconds before each step."""

    matchers: tuple[Matcher, ...]
    range: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    operator: str
    node: Node
    labels: tuple[str, ...]
    without: bool
    parameter: float | None


@dataclass(frozen=True, slots=True)
class Binary:
    """`labels` are those to match by (`on`), or those that do not count."""

    operator: str
    left: Node
    right: Node
    as_bool: bool = False
    on: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Negated:
    node: Node


Node = Number | Selector | Call | Aggregate | Binary | Negated


def parse(text: str) -> Node:
    """The tree of a query. InvalidInput for what is none, and for what is not served."""
    return _Parser(text, _TOKEN).query()


def parse_selector(text: str) -> Selector:
    found = parse(text)
    if not isinstance(found, Selector) or found.range is not None or found.offset:
        raise InvalidInput(f'A selector is such as up{{job="cart"}}, not {text[:100]!r}.')
    return found


def selectors(node: Node) -> list[Selector]:
    """The selectors of a query, from the left."""
    if isinstance(node, Selector):
        return [node]
    if isinstance(node, Call):
        return [one for argument in node.arguments for one in selectors(argument)]
    if isinstance(node, Aggregate | Negated):
        return selectors(node.node)
    return [*selectors(node.left), *selectors(node.right)] if isinstance(node, Binary) else []


class _Parser(Words):
    _depth = 0

    def query(self) -> Node:
        found = self._expression(0)
        if self.kind != "end":
            self.refuse("nothing is served here; set operators, subqueries and @ are not")
        return found

    def _expression(self, binding: int) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self.refuse(f"a query goes at most {_DEEPEST} deep")
        left = self._unary()
        while self.kind == "sign" and (power := _BINDING.get(self.word, 0)) > binding:
            left = self._operation(left, power)
        self._depth -= 1
        return left

    def _operation(self, left: Node, power: int) -> Binary:
        operator = self.take()
        as_bool = self.taken("bool")
        if as_bool and operator not in COMPARISONS:
            self.refuse("bool goes with comparisons alone")
        on, labels = False, tuple[str, ...]()
        if self.at("on", "ignoring"):
            on, labels = self.take() == "on", self.names()
        if self.at("group_left", "group_right"):
            self.refuse("one-to-one matches alone are served")
        right = self._expression(power - 1 if operator == "^" else power)
        return Binary(operator, left, right, as_bool, on, labels)

    def _unary(self) -> Node:
        if not self.at("+", "-"):
            return self._primary()
        negative = self.take() == "-"
        found = self._expression(_UNARY)
        if isinstance(found, Selector) and found.range is not None:
            self.refuse("a range has no sign")
        return (Number(-found.value) if isinstance(found, Number) else Negated(found)) if negative else found

    def _primary(self) -> Node:
        if self.kind == "number":
            text = self.take()
            return Number(float(int(text, 16)) if text.startswith("0x") else float(text))
        if self.taken("("):
            found = self._expression(0)
            self.expect(")")
            return found
        if self.at("{"):
            return self._selector(None)
        if self.kind != "name":
            self.refuse("a number, a metric, a function or ( is missing here")
        if self.at(*AGGREGATES) and self.following in ("(", "by", "without"):
            return self._aggregate()
        if self.following == "(":
            return self._call()
        name = self.take()
        if name.lower() in ("inf", "nan"):
            return Number(float(name))
        return self._selector(name)

    def _aggregate(self) -> Aggregate:
        operator = self.take()
        grouping = self._grouping()
        self.expect("(")
        parameter = None
        if operator in ("topk", "bottomk"):
            found = self._expression(0)
            if not isinstance(found, Number) or not -1e9 < found.value < 1e9:
                self.refuse(f"{operator} begins with a number")
            parameter = found.value
            self.expect(",")
        node = self._expression(0)
        self.expect(")")
        without, labels = grouping or self._grouping() or (False, ())
        return Aggregate(operator, node, labels, without, parameter)

    def _grouping(self) -> tuple[bool, tuple[str, ...]] | None:
        return (self.take() == "without", self.names()) if self.at("by", "without") else None

    def _call(self) -> Call:
        if self.word not in FUNCTIONS:
            self.refuse(f"the function {self.word[:50]!r} is not served; these are: {', '.join(FUNCTIONS)}")
        name = self.take()
        self.expect("(")
        arguments: list[Node] = []
        while not self.at(")"):
            arguments.append(self._expression(0))
            if not self.taken(","):
                break
        self.expect(")")
        return Call(name, tuple(arguments))

    def _selector(self, name: str | None) -> Selector:
        matchers = [] if name is None else [Matcher("__name__", "=", name)]
        if self.taken("{"):
            while not self.at("}"):
                matchers.append(self._matcher())
                if not self.taken(","):
                    break
            self.expect("}")
        if all(one.value == "" or one.operator in ("!=", "!~") for one in matchers):
            self.refuse("a selector names a metric, or one label that is not empty")
        found = Selector(tuple(matchers))
        if self.taken("["):
            size = self._duration()
            if self.at(":"):
                self.refuse("subqueries are not served")
            self.expect("]")
            found = replace(found, range=size)
        if self.taken("offset"):
            sign = -1 if self.taken("-") else 1
            found = replace(found, offset=sign * self._duration())
        return found

    def _matcher(self) -> Matcher:
        if self.kind == "text":  # a metric whose name is in quotes
            return Matcher("__name__", "=", self.text())
        label = self.name()
        if not self.at("=", "!=", "=~", "!~"):
            self.refuse("compare a label with =, !=, =~ or !~")
        return Matcher(label, self.take(), self.text())

    def _duration(self) -> int:
        if self.kind != "duration":
            self.refuse("a duration such as 5m is missing here")
        found = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(self.word))
        if not 0 < found < 100 * _UNITS["y"]:
            self.refuse("this duration is too short or too long")
        self.take()
        return found


__all__ = [
    "COMPARISONS", "WINDOWS", "Aggregate", "Binary", "Call", "Matcher", "Negated", "Node", "Number", "Selector",
    "parse", "parse_selector", "selectors",
]  # fmt: skip
