"""Evaluating an Arrow expression over a table that is in memory."""

from __future__ import annotations

import pyarrow as pa

from moulin.model.columns import compute as pc


def evaluate(expression: pc.Expression, table: pa.Table) -> pa.ChunkedArray:
    """The value of the expression for each row, in the order of the rows: one thread keeps it."""
    from pyarrow import acero  # imports all of pandas where there is one, which doubles the time to start

    if not table.num_columns:
        table = pa.table({"": pa.nulls(table.num_rows)})
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    return plan.to_table(use_threads=False).column("value")
