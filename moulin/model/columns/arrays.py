"""The NumPy arrays that signatures name."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
"""Row positions, row ids, offsets: whole numbers of 64 bits."""
Hashes: TypeAlias = npt.NDArray[np.uint32]
