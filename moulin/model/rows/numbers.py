"""NumPy's numbers as Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def int64_array(numbers: npt.NDArray[Any]) -> pa.Array:
    """The numbers as an Arrow array over the same memory. Unlike `pa.array`, it does not import pandas."""
    data = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(data), [None, pa.py_buffer(data)])


__all__ = ["int64_array"]
