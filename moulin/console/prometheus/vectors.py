"""Vectors at every step: aggregated, and combined with others and with scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from moulin.console.metrics.buckets import quantiles
from moulin.console.prometheus.promql import COMPARISONS, Aggregate, Binary
from moulin.console.prometheus.samples import Labels
from moulin.console.prometheus.windows import Floats, Mask
from moulin.console.telemetry import GoOn
from moulin.errors import InvalidInput

NAME: Final = "__name__"
_AT_ONCE: Final = 100
_COMPUTED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod, "^": np.power,
    "==": np.equal, "!=": np.not_equal, ">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Vector:
    """For each series, its labels and a row of values; `known` says where there is one."""

    labels: Sequence[Labels]
    values: Floats
    known: Mask

    def without_name(self) -> Vector:
        return merged(Vector([drop(one, (NAME,)) for one in self.labels], self.values, self.known))


def drop(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in names)


def merged(found: Vector) -> Vector:
    """Each set of labels once. InvalidInput when two series of the same labels have a value at one step."""
    if len(set(found.labels)) == len(found.labels):
        return found
    groups = _groups(found.labels)
    values, known = [], []
    for rows in groups.values():
        if (found.known[rows].sum(axis=0) > 1).any():
            raise InvalidInput("Two series of the result have the same labels: keep them apart by `by` or by a name.")
        known.append(found.known[rows].any(axis=0))
        values.append(np.where(found.known[rows], found.values[rows], 0.0).sum(axis=0))
    return Vector(list(groups), np.stack(values), np.stack(known))


def _groups(labels: Sequence[Labels]) -> dict[Labels, list[int]]:
    groups: dict[Labels, list[int]] = {}
    for row, one in enumerate(labels):
        groups.setdefault(one, []).append(row)
    return groups


def compute(operator: str, left: Any, right: Any) -> Any:
    with np.errstate(all="ignore"):
        return _COMPUTED[operator](left, right)


def with_scalar(asked: Binary, vector: Vector, scalar: Floats, *, scalar_left: bool) -> Vector:
    sides = (scalar[None, :], vector.values) if scalar_left else (vector.values, scalar[None, :])
    found = compute(asked.operator, *sides)
    if asked.operator not in COMPARISONS or asked.as_bool:
        return Vector(vector.labels, found.astype(float), vector.known).without_name()
    return Vector(vector.labels, vector.values, vector.known & found)


def one_to_one(asked: Binary, left: Vector, right: Vector) -> Vector:
    def key(labels: Labels) -> Labels:
        if asked.on:
            return tuple(pair for pair in labels if pair[0] in asked.labels)
        return drop(labels, (NAME, *asked.labels))

    mine, others = _groups([key(one) for one in left.labels]), _groups([key(one) for one in right.labels])
    labels: list[Labels] = []
    values: list[Floats] = []
    known: list[Mask] = []
    filters = asked.operator in COMPARISONS and not asked.as_bool
    for matched, rows in mine.items():
        if matched not in others:
            continue
        one, other = _single(left, rows), _single(right, others[matched])
        found = compute(asked.operator, one.values[0], other.values[0])
        both = one.known[0] & other.known[0]
        name = tuple(
            pair
            for pair in one.labels[0]
            if pair[0] == NAME and filters and not (asked.on and NAME not in asked.labels)
        )
        labels.append(tuple(sorted(dict([*matched, *name]).items())))
        values.append(one.values[0] if filters else found.astype(float))
        known.append(both & found if filters else both)
    if not labels:
        return empty(left.values.shape[1])
    return merged(Vector(labels, np.stack(values), np.stack(known)))


def _single(side: Vector, rows: list[int]) -> Vector:
    """The one series of a side that has a value at each step."""
    if (side.known[rows].sum(axis=0) > 1).any():
        raise InvalidInput("Several series of one side match: a match is one to one; name the labels with `on`.")
    at = side.known[rows]
    value = np.where(at, side.values[rows], 0.0).sum(axis=0)
    some: Mask = np.asarray(at.any(axis=0), np.bool_)
    return Vector([side.labels[rows[0]]], np.where(some, value, np.nan)[None], some[None])


def empty(width: int) -> Vector:
    return Vector([], np.zeros((0, width)), np.zeros((0, width), np.bool_))


def aggregate(asked: Aggregate, vector: Vector) -> Vector:
    def key(labels: Labels) -> Labels:
        if asked.without:
            return drop(labels, (NAME, *asked.labels))
        return tuple(pair for pair in labels if pair[0] in asked.labels)

    groups = _groups([key(one) for one in vector.labels])
    if not groups:
        return vector
    if asked.operator in ("topk", "bottomk"):
        return _most(asked, vector, groups)
    parts = [_joined(asked.operator, vector.values[rows], vector.known[rows]) for rows in groups.values()]
    return Vector(list(groups), np.stack(parts), np.stack([vector.known[rows].any(axis=0) for rows in groups.values()]))


def _joined(operator: str, values: Floats, known: Mask) -> Floats:
    counts = known.sum(axis=0)
    if operator == "count":
        return np.asarray(counts, np.float64)
    with np.errstate(invalid="ignore"):
        if operator in ("min", "max"):
            reduce = np.fmin if operator == "min" else np.fmax
            return np.asarray(reduce.reduce(np.where(known, values, np.nan), axis=0), np.float64)
        total = np.where(known, values, 0.0).sum(axis=0)
        return np.asarray(total / np.maximum(counts, 1) if operator == "avg" else total, np.float64)


def _most(asked: Aggregate, vector: Vector, groups: dict[Labels, list[int]]) -> Vector:
    """At each step the series with the greatest values, or the least; they keep their labels."""
    kept = np.zeros_like(vector.known)
    sign = 1.0 if asked.operator == "topk" else -1.0
    number = max(0, int(asked.parameter or 0))
    for rows in groups.values():
        ranked = np.where(np.isnan(vector.values[rows]), -np.inf, sign * vector.values[rows])
        order = np.argsort(-np.where(vector.known[rows], ranked, -np.inf), axis=0, kind="stable")
        # Where there is no value comes last, also after what is least.
        order = np.take_along_axis(
            order, np.argsort(~np.take_along_axis(vector.known[rows], order, 0), axis=0, kind="stable"), 0
        )
        mine = np.zeros((len(rows), vector.known.shape[1]), np.bool_)
        np.put_along_axis(mine, order[:number], True, axis=0)
        kept[rows] = mine & vector.known[rows]
    return Vector(vector.labels, vector.values, kept)


def histogram_quantile(wanted: Floats, vector: Vector, go_on: GoOn) -> Vector:
    """The quantile of each histogram at each step; `wanted` has one for each step, and each other one takes time."""
    groups: dict[Labels, list[tuple[float, int]]] = {}
    for row, labels in enumerate(vector.labels):
        try:
            bound = float(dict(labels).get("le", "").replace("Inf", "inf"))
        except ValueError:
            continue
        groups.setdefault(drop(labels, (NAME, "le")), []).append((bound, row))
    if not groups:
        return empty(vector.values.shape[1])
    found = [_quantile(wanted, vector, sorted(buckets), go_on) for buckets in groups.values()]
    return merged(
        Vector(list(groups), np.stack([value for value, _ in found]), np.stack([known for _, known in found]))
    )


def _quantile(wanted: Floats, vector: Vector, buckets: list[tuple[float, int]], go_on: GoOn) -> tuple[Floats, Mask]:
    bounds = np.array([bound for bound, _ in buckets])
    rows = [row for _, row in buckets]
    values, known = vector.values[rows], vector.known[rows]
    found = np.full(known.shape[1], np.nan)
    some: Mask = np.asarray(known.any(axis=0), np.bool_)
    patterns, of = np.unique(known, axis=1, return_inverse=True)
    for number in range(patterns.shape[1]):
        held = patterns[:, number]
        mine = bounds[held]
        if held.sum() < 2 or mine[-1] != np.inf:
            continue
        for index, quantile in enumerate(np.unique(wanted[of.reshape(-1) == number])):
            if index % _AT_ONCE == 0:
                go_on()
            at = (of.reshape(-1) == number) & (wanted == quantile)
            if 0 <= quantile <= 1:
                found[at] = quantiles(mine, values[held][:, at].T, np.array([quantile]))[:, 0]
            elif quantile == quantile:
                found[at] = -np.inf if quantile < 0 else np.inf
    return found, some


__all__ = ["Vector", "aggregate", "compute", "empty", "histogram_quantile", "merged", "one_to_one", "with_scalar"]
