r"""A named part of PromQL, as a tree.

    expression = unary { operator [ "bool" ] [ ("on" | "ignoring") labels ] unary }
    operator   = "^" | "*" | "/" | "%" | "+" | "-" | "==" | "!=" | ">" | "<" | ">=" | "<="     binding as in PromQL
    unary      = [ "-" | "+" ] ( number | "(" expression ")" | aggregate | call | selector )
    aggregate  = ("sum" | "avg" | "min" | "max" | "count") [ by ] "(" expression ")" [ by ]
               | ("topk" | "bottomk") [ by ] "(" number "," expression ")" [ by ]
    by         = ("by" | "without") labels
    call       = function "(" [ expression { "," expression } ] ")"
    selector   = ( name [ "{" matchers "}" ] | "{" matchers "}" ) [ "[" duration "]" ] [ "offset" [ "-" ] duration ]

Whatever else PromQL has is InvalidInput, which says at which column.
"""

# Decisions: docs/decisions/0662

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from moulin.errors import InvalidInput

LONGEST: Final = 5000
_DEEPEST: Final = 30
_MOST_TOKENS: Final = 500
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
    if len(text) > LONGEST:
        raise InvalidInput(f"A query has at most {LONGEST} characters.")
    return _Parser(text).query()


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


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        self._at = self._depth = 0
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
        if len(self._tokens) > _MOST_TOKENS:
            raise InvalidInput(f"A query has at most {_MOST_TOKENS} words and signs.")

    def query(self) -> Node:
        found = self._expression(0)
        if self._kind != "end":
            self._refuse("nothing is served here; set operators, subqueries and @ are not")
        return found

    def _expression(self, binding: int) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"a query goes at most {_DEEPEST} deep")
        left = self._unary()
        while self._kind == "sign" and (power := _BINDING.get(self._word, 0)) > binding:
            operator = self._take()
            as_bool = self._word == "bool"
            if as_bool:
                if operator not in COMPARISONS:
                    self._refuse("bool goes with comparisons alone")
                self._at += 1
            on = False
            labels: tuple[str, ...] = ()
            if self._word in ("on", "ignoring"):
                on = self._take() == "on"
                labels = self._labels()
            if self._word in ("group_left", "group_right"):
                self._refuse("one-to-one matches alone are served")
            right = self._expression(power - 1 if operator == "^" else power)
            left = Binary(operator, left, right, as_bool, on, labels)
        self._depth -= 1
        return left

    def _unary(self) -> Node:
        if self._kind == "sign" and self._word in "+-":
            negative = self._take() == "-"
            found = self._expression(_UNARY)
            if isinstance(found, Selector) and found.range is not None:
                self._refuse("a range has no sign")
            return (Number(-found.value) if isinstance(found, Number) else Negated(found)) if negative else found
        return self._primary()

    def _primary(self) -> Node:
        if self._kind == "number":
            text = self._take()
            return Number(float(int(text, 16)) if text.startswith("0x") else float(text))
        if self._is("("):
            self._at += 1
            found = self._expression(0)
            self._expect(")")
            return found
        if self._is("{"):
            return self._selector(None)
        if self._kind != "name":
            self._refuse("a number, a metric, a function or ( is missing here")
        name = self._word
        follows = self._tokens[self._at + 1]
        if name in AGGREGATES and (follows[1] in ("(", "by", "without")):
            return self._aggregate()
        if follows[:2] == ("sign", "("):
            return self._call()
        self._at += 1
        if name.lower() in ("inf", "nan"):
            return Number(float(name))
        return self._selector(name)

    def _aggregate(self) -> Aggregate:
        operator = self._take()
        grouping = self._grouping()
        self._expect("(")
        parameter = None
        if operator in ("topk", "bottomk"):
            found = self._expression(0)
            if not isinstance(found, Number) or not -1e9 < found.value < 1e9:
                self._refuse(f"{operator} begins with a number")
            parameter = found.value
            self._expect(",")
        node = self._expression(0)
        self._expect(")")
        labels, without = grouping or self._grouping() or ((), False)
        return Aggregate(operator, node, labels, without, parameter)

    def _grouping(self) -> tuple[tuple[str, ...], bool] | None:
        if self._word not in ("by", "without"):
            return None
        without = self._take() == "without"
        return self._labels(), without

    def _labels(self) -> tuple[str, ...]:
        self._expect("(")
        found: list[str] = []
        while not self._is(")"):
            found.append(self._name())
            if not self._is(","):
                break
            self._at += 1
        self._expect(")")
        return tuple(dict.fromkeys(found))

    def _call(self) -> Call:
        name = self._word
        if name not in FUNCTIONS:
            self._refuse(f"the function {name[:50]!r} is not served; these are: {', '.join(FUNCTIONS)}")
        self._at += 2
        arguments: list[Node] = []
        while not self._is(")"):
            arguments.append(self._expression(0))
            if not self._is(","):
                break
            self._at += 1
        self._expect(")")
        return Call(name, tuple(arguments))

    def _selector(self, name: str | None) -> Selector:
        matchers = [] if name is None else [Matcher("__name__", "=", name)]
        if self._is("{"):
            self._at += 1
            while not self._is("}"):
                matchers.append(self._matcher())
                if not self._is(","):
                    break
                self._at += 1
            self._expect("}")
        if all(one.value == "" or one.operator in ("!=", "!~") for one in matchers):
            self._refuse("a selector names a metric, or one label that is not empty")
        found = Selector(tuple(matchers))
        if self._is("["):
            self._at += 1
            size = self._duration()
            if self._is(":"):
                self._refuse("subqueries are not served")
            self._expect("]")
            found = replace(found, range=size)
        if self._word == "offset" and self._kind == "name":
            self._at += 1
            sign = -1 if self._is("-") else 1
            self._at += sign < 0
            found = replace(found, offset=sign * self._duration())
        return found

    def _matcher(self) -> Matcher:
        if self._kind == "text":  # a metric whose name is in quotes
            return Matcher("__name__", "=", self._text())
        label = self._name()
        if self._word not in ("=", "!=", "=~", "!~"):
            self._refuse("a label is compared by =, !=, =~ or !~")
        operator = self._take()
        return Matcher(label, operator, self._text())

    def _duration(self) -> int:
        if self._kind != "duration":
            self._refuse("a duration such as 5m is missing here")
        found = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(self._word))
        if not 0 < found < 100 * _UNITS["y"]:
            self._refuse("this duration is too short or too long")
        self._at += 1
        return found

    def _text(self) -> str:
        if self._kind != "text":
            self._refuse("a text in quotes is missing here")
        text = self._word
        if text[0] == "`":
            self._at += 1
            return text[1:-1]
        inner = text[1:-1].replace("\\'", "'").replace("\t", "\\t")
        try:
            found: str = json.loads('"' + (inner if text[0] == '"' else re.sub(r'(?<!\\)"', r"\"", inner)) + '"')
        except ValueError:
            self._refuse("this text has an unknown escape")
        self._at += 1
        return found

    def _name(self) -> str:
        if self._kind != "name":
            self._refuse("the name of a label is missing here")
        return self._take()

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _word(self) -> str:
        return self._tokens[self._at][1]

    def _is(self, text: str) -> bool:
        return self._kind == "sign" and self._word == text

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, text: str) -> None:
        if not self._is(text):
            self._refuse(f"{text} is missing here")
        self._at += 1

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInput(f"The query cannot be read at column {self._tokens[self._at][2] + 1}: {why}.")


__all__ = [
    "COMPARISONS", "WINDOWS", "Aggregate", "Binary", "Call", "Matcher", "Negated", "Node", "Number", "Selector",
    "parse", "parse_selector", "selectors",
]  # fmt: skip
