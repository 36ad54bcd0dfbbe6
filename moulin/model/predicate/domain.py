"""The known domain of a column: nulls, NaNs, and values between two bounds.

Bounds need not be values that occur; all that is asked of them is that no value lies outside, so truncated ones will
do.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import Any, NamedTuple

import mmh3

from moulin.model.predicate.condition import Column, Comparand, Compare, Contains, In, IsNan, IsNull, Like, Operator
from moulin.model.schema.single_value import unscaled_to_bytes
from moulin.model.schema.values import BooleanType, DecimalType, IcebergType, TimestampNanoType, TimestamptzNanoType

Leaf = Compare | In | IsNull | IsNan | Like | Contains


class Bucket(NamedTuple):
    """Every value falls into bucket `number`; there are `of` of them."""

    of: int
    type: IcebergType
    number: int


class Domain(NamedTuple):
    """`value`, `null` and `nan` say what may occur. A bound of None is unknown; int bounds are always closed."""

    lower: Any = None
    lower_open: bool = False
    upper: Any = None
    upper_open: bool = False
    value: bool = True
    null: bool = True
    nan: bool = False
    buckets: tuple[Bucket, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.value or self.null or self.nan)

    def above(self, bound: Any, is_open: bool = False) -> Domain:
        """Less the values below `bound`, and `bound` itself if it is open."""
        if is_open and isinstance(bound, int):
            bound, is_open = bound + 1, False
        if self.lower is None or bound > self.lower or (bound == self.lower and is_open):
            return self._replace(lower=bound, lower_open=is_open)._settled()
        return self

    def below(self, bound: Any, is_open: bool = False) -> Domain:
        """Less the values above `bound`, and `bound` itself if it is open."""
        if is_open and isinstance(bound, int):
            bound, is_open = bound - 1, False
        if self.upper is None or bound < self.upper or (bound == self.upper and is_open):
            return self._replace(upper=bound, upper_open=is_open)._settled()
        return self

    def meet(self, other: Domain) -> Domain:
        """What both allow."""
        met = self._replace(
            value=self.value and other.value,
            null=self.null and other.null,
            nan=self.nan and other.nan,
            buckets=(*self.buckets, *other.buckets),
        )
        met = met if other.lower is None else met.above(other.lower, other.lower_open)
        return met if other.upper is None else met.below(other.upper, other.upper_open)

    def join(self, other: Domain) -> Domain:
        """What either allows, and perhaps more."""
        null, nan = self.null or other.null, self.nan or other.nan
        if not (self.value and other.value):
            return (self if self.value else other)._replace(null=null, nan=nan)
        lower, lower_open = self.lower, self.lower_open
        if lower is not None and (other.lower is None or (other.lower, other.lower_open) < (lower, lower_open)):
            lower, lower_open = other.lower, other.lower_open
        upper, upper_open = self.upper, self.upper_open
        if upper is not None and (other.upper is None or (other.upper, not other.upper_open) > (upper, not upper_open)):
            upper, upper_open = other.upper, other.upper_open
        buckets = self.buckets if self.buckets == other.buckets else ()
        return Domain(lower, lower_open, upper, upper_open, True, null, nan, buckets)

    def narrowed(self, leaf: Leaf) -> Domain:
        """What is left when `leaf` holds."""
        match leaf:
            case Compare(_, operator, comparand):
                return self._not_null()._compared(operator, comparand)
            case In(_, comparands, negated):
                return self._not_null()._without(comparands) if negated else self._not_null()._among(comparands)
            case IsNull(_, negated):
                return self._not_null() if negated else self._replace(value=False, nan=False)
            case IsNan(_, negated):
                return self._not_null()._not_nan() if negated else self._replace(value=False, null=False)
            case Like():
                return self._not_null()._like(leaf)
            case Contains(unknown=unknown):
                return self if unknown else self._not_null()

    # Most columns have neither, and a copy takes longer than the look: plans ask this of every segment.
    def _not_null(self) -> Domain:
        return self._replace(null=False) if self.null else self

    def _not_nan(self) -> Domain:
        return self._replace(nan=False) if self.nan else self

    def _settled(self) -> Domain:
        """`value` is False once the bounds leave no room."""
        if self.lower is None or self.upper is None or self.lower < self.upper:
            return self
        room = self.lower == self.upper and not (self.lower_open or self.upper_open)
        return self if room else self._replace(value=False)

    def _compared(self, operator: Operator, comparand: Comparand) -> Domain:
        match operator:
            case "=":
                return self._among((comparand,))
            case "!=":
                return self._without((comparand,))
            case "<" | "<=":
                return self._not_nan().below(comparand, operator == "<")
            case ">" | ">=":
                return self.above(comparand, operator == ">")

    def _among(self, comparands: tuple[Any, ...]) -> Domain:
        first = 0 if self.lower is None else (bisect_right if self.lower_open else bisect_left)(comparands, self.lower)
        last = (
            len(comparands)
            if self.upper is None
            else (bisect_left if self.upper_open else bisect_right)(comparands, self.upper)
        )
        kept = comparands[first:last]
        if self.buckets:
            kept = tuple(
                comparand
                for comparand in kept
                if all(_bucket(b.of, b.type, comparand) == b.number for b in self.buckets)
            )
        if not kept:
            return self._replace(value=False, nan=False)
        return self._not_nan().above(kept[0]).below(kept[-1])

    def _without(self, comparands: tuple[Any, ...]) -> Domain:
        left = self
        while left.value and left.lower is not None and not left.lower_open and _holds(comparands, left.lower):
            left = left.above(left.lower, True)
        while left.value and left.upper is not None and not left.upper_open and _holds(comparands, left.upper):
            left = left.below(left.upper, True)
        return left

    def _like(self, leaf: Like) -> Domain:
        if leaf.ignore_case or not leaf.prefix:
            return self
        end = following(leaf.prefix)
        if not leaf.negated:
            met = self.above(leaf.prefix)
            return met if end is None else met.below(end, True)
        if leaf.whole and self.lower is not None and self.upper is not None:
            inside = end is None or self.upper < end or (self.upper == end and self.upper_open)
            if inside and self.lower >= leaf.prefix:
                return self._replace(value=False)
        return self


def unknown(column: Column) -> Domain:
    """All that a column of this type can hold."""
    if isinstance(column.type, BooleanType):
        return Domain(lower=0, upper=1)
    return Domain(nan=column.is_floating)


def following(prefix: Any) -> Any:
    """The least text (or bytes) above everything that starts with `prefix`; None when there is none."""
    if isinstance(prefix, bytes):
        kept = prefix.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    # Surrogates are no characters: U+D7FF is followed by U+E000.
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)


def _holds(comparands: tuple[Any, ...], comparand: Any) -> bool:
    at = bisect_left(comparands, comparand)
    return at < len(comparands) and bool(comparands[at] == comparand)


@lru_cache(maxsize=1 << 16)
def _bucket(count: int, iceberg: IcebergType, comparand: Comparand) -> int:
    """The bucket of one value: that of the bytes which Iceberg's specification hashes."""
    data: Any = comparand
    if isinstance(comparand, int):
        micros = comparand // 1000 if isinstance(iceberg, TimestampNanoType | TimestamptzNanoType) else comparand
        data = unscaled_to_bytes(comparand) if isinstance(iceberg, DecimalType) else struct.pack("<q", micros)
    return int(mmh3.hash(data, signed=False) & 0x7FFFFFFF) % count
