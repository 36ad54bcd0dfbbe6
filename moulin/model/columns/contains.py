"""Whether lists contain a value, as an Arrow expression: Arrow has no function for it.

Three values, as in Spark's array_contains: null for a null list, and for one that has nulls and not the value. Floats
are compared as elsewhere: NaN equals NaN, and -0.0 equals 0.0.
"""

# Decisions: docs/decisions/0450

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.model.columns import compute as pc


def contains(lists: pc.Expression, value: pa.Scalar) -> pc.Expression:
    """`lists` are of values of the type of `value`, or of uuids beside 16 bytes; a null `value` is in no list."""
    kind = pa.list_(pa.field("element", value.type))
    return pc.Expression._call(_function(value.type), [lists.cast(kind), pc.scalar(value)])


@cache
def _function(kind: pa.DataType) -> str:
    """The name under which Arrow knows the function for lists of this type; once in a process."""
    name = f"moulin_array_contains<{kind}>"
    doc = {"summary": "Whether a list contains a value", "description": "Null when that is unknown."}
    arguments = {"lists": pa.list_(pa.field("element", kind)), "value": kind}
    with suppress(pa.ArrowKeyError):  # another thread did
        pc.register_scalar_function(_contains, name, doc, arguments, pa.bool_())
    return name


def _contains(context: Any, lists: pa.ListArray | pa.ListScalar, value: pa.Scalar) -> pa.BooleanArray:
    if isinstance(lists, pa.Scalar):
        lists = pa.array([lists.as_py()], lists.type)
    flat = lists.flatten()
    if not value.is_valid:
        same = np.zeros(len(flat), np.bool_)
    else:
        is_nan = pa.types.is_floating(value.type) and value.as_py() != value.as_py()
        equal = pc.is_nan(flat) if is_nan else pc.equal(flat, value)
        same = np.asarray(pc.fill_null(equal, False).cast(pa.uint8())).astype(np.bool_)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    owners = np.repeat(np.arange(len(lists)), lengths)
    found = np.zeros(len(lists), np.bool_)
    found[owners[same]] = True
    unknown = np.asarray(lists.is_null().cast(pa.uint8())).astype(np.bool_)
    if flat.null_count:
        unknown[owners[np.asarray(flat.is_null().cast(pa.uint8())).astype(np.bool_)]] = True
    return pa.array(found, mask=unknown & ~found)


__all__ = ["contains"]
