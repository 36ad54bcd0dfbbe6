"""Converts Arrow tables to data frames of optional libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from moulin.errors import FailedPrecondition, missing_extra

if TYPE_CHECKING:
    import pandas
    import polars


def to_pandas(table: pa.Table) -> pandas.DataFrame:
    """The rows as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401  which Arrow looks for
    except ModuleNotFoundError:
        raise missing_extra("to_pandas", "pandas") from None
    return table.to_pandas()


def to_polars(table: pa.Table) -> polars.DataFrame:
    """The rows as a polars DataFrame."""
    try:
        import polars
    except ModuleNotFoundError:
        raise FailedPrecondition("to_polars needs polars: pip install polars.") from None
    return polars.DataFrame(table)
