"""Evaluates a query at every step at once."""

# Decisions: docs/decisions/0662

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from moulin.console.prometheus import vectors
from moulin.console.prometheus.promql import (
    COMPARISONS,
    WINDOWS,
    Aggregate,
    Binary,
    Call,
    Matcher,
    Negated,
    Node,
    Number,
    Selector,
    selectors,
)
from moulin.console.prometheus.samples import Samples
from moulin.console.prometheus.vectors import Vector
from moulin.console.prometheus.windows import LOOKBACK, Floats, Times, latest, over_range
from moulin.console.telemetry import GoOn
from moulin.errors import InvalidInput

MOST_STEPS: Final = 11_000
MOST_VALUES: Final = 20_000_000
"""Values of all selectors of a query, at all steps."""
_MOST_SELECTORS: Final = 20
_AT_ONCE: Final = 100
_KEEPS_NAME: Final = ("last_over_time",)
_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "sqrt": np.sqrt, "exp": np.exp, "ln": np.log, "log2": np.log2,
    "log10": np.log10,
}  # fmt: skip
Read = Callable[[Sequence[Matcher], int, int], list[Samples]]
"""The series that matchers select, with their samples in [start, end] milliseconds."""
Value = Vector | Floats


@dataclass
class Engine:
    """Evaluates at `steps`, in milliseconds. `go_on` is called between series, and raises to stop."""

    steps: Times
    read: Read
    go_on: GoOn = lambda: None
    _values: int = field(default=0, init=False)

    def run(self, node: Node) -> Value:
        """A vector, or a scalar: a number for each step."""
        if len(selectors(node)) > _MOST_SELECTORS:
            raise InvalidInput(f"A query has at most {_MOST_SELECTORS} selectors.")
        return self._value(node)

    def _value(self, node: Node) -> Value:
        if isinstance(node, Number):
            return np.full(len(self.steps), node.value)
        if isinstance(node, Selector):
            if node.range is not None:
                raise InvalidInput("A range such as [5m] goes into a function: rate(...), avg_over_time(...).")
            return self._selected(node, None)
        if isinstance(node, Call):
            return self._called(node)
        if isinstance(node, Aggregate):
            return vectors.aggregate(node, self._vector(node.node, node.operator))
        if isinstance(node, Negated):
            found = self._value(node.node)
            return (
                Vector(found.labels, -found.values, found.known).without_name() if isinstance(found, Vector) else -found
            )
        return self._binary(node)

    def _vector(self, node: Node, of: str) -> Vector:
        found = self._value(node)
        if not isinstance(found, Vector):
            raise InvalidInput(f"{of} takes a vector, and this is a number.")
        return found

    def _scalar(self, node: Node, of: str) -> Floats:
        found = self._value(node)
        if isinstance(found, Vector):
            raise InvalidInput(f"{of} takes a number here, and this is a vector.")
        return found

    def _selected(self, node: Selector, function: str | None) -> Vector:
        steps = self.steps - node.offset
        before = LOOKBACK if node.range is None else node.range
        found = self.read(node.matchers, int(steps[0]) - before + 1, int(steps[-1]))
        self._values += len(found) * len(steps)
        if self._values > MOST_VALUES:
            raise InvalidInput("This query has too many series for its steps: select fewer, or ask for longer steps.")
        values, known = np.zeros((len(found), len(steps))), np.zeros((len(found), len(steps)), np.bool_)
        for row, one in enumerate(found):
            if row % _AT_ONCE == 0:
                self.go_on()
            if function is None or node.range is None:
                values[row], known[row] = latest(one.times, one.values, one.stale, steps)
            else:
                held = ~one.stale
                values[row], known[row] = over_range(function, one.times[held], one.values[held], steps, node.range)
        some = np.asarray(known.any(axis=1), np.bool_)
        labels = [one.labels for one, kept in zip(found, some.tolist(), strict=True) if kept]
        vector = Vector(labels, values[some], known[some])
        return vector if function is None or function in _KEEPS_NAME else vector.without_name()

    def _called(self, node: Call) -> Value:
        name, given = node.function, node.arguments
        count = {"time": 0, "clamp_min": 2, "clamp_max": 2, "histogram_quantile": 2}.get(name, 1)
        if len(given) != count:
            raise InvalidInput(f"{name} takes {count} arguments, and was given {len(given)}.")
        if name == "time":
            return self.steps / 1000
        if name == "vector":
            return Vector([()], self._scalar(given[0], name)[None, :], np.ones((1, len(self.steps)), np.bool_))
        if name in WINDOWS:
            if not isinstance(given[0], Selector) or given[0].range is None:
                raise InvalidInput(f"{name} takes a selector with a range, such as requests_total[5m].")
            return self._selected(given[0], name)
        if name == "histogram_quantile":
            return vectors.histogram_quantile(self._scalar(given[0], name), self._vector(given[1], name), self.go_on)
        found = self._vector(given[0], name)
        with np.errstate(all="ignore"):
            if name in _PLAIN:
                values = _PLAIN[name](found.values)
            else:
                bound = self._scalar(given[1], name)[None, :]
                values = (np.maximum if name == "clamp_min" else np.minimum)(found.values, bound)
        return Vector(found.labels, values, found.known).without_name()

    def _binary(self, node: Binary) -> Value:
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(left, Vector) and isinstance(right, Vector):
            return vectors.one_to_one(node, left, right)
        if node.labels or node.on:
            raise InvalidInput("`on` and `ignoring` match two vectors, and one side is a number.")
        if isinstance(left, Vector):
            return vectors.with_scalar(node, left, right, scalar_left=False) if not isinstance(right, Vector) else left
        if isinstance(right, Vector):
            return vectors.with_scalar(node, right, left, scalar_left=True)
        if node.operator in COMPARISONS and not node.as_bool:
            raise InvalidInput("Two numbers are compared with bool, such as 1 < bool 2.")
        found: Floats = vectors.compute(node.operator, left, right).astype(float)
        return found


__all__ = ["MOST_STEPS", "Engine", "Read", "Value"]
