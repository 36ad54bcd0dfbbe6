"""A column that is added with values on Spark, beside Delta Lake, which writes every file again.

One double over rows of 200 columns, from two others. Delta adds the column and updates all rows, with deletion vectors
as its users have them; each side on the Spark that it supports. Both columns have the same sum, or there is no ratio.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.column_files import COLUMNS, pieces
from benchmarks.harness import Bench, Contender, Line, take_turns
from benchmarks.sql_peer import Peer, Unreachable
from moulin.table.table import Table

TITLE = "a column with values, on Spark"
TARGET = 0.3
_MOST_ROWS = 1_000_000  # Delta writes all of them again in every turn
_TURNS = 3
_VALUES = "c0 * c1"


def run(bench: Bench) -> Iterator[Line]:
    rows = min(bench.rows, _MOST_ROWS)
    case = f"one double over {rows:,} rows of {len(COLUMNS)} columns, on Spark"
    if not bench.peers or not bench.wants_peer("Delta"):
        yield Line("spark_fill", case, reason="Delta was left out", target=TARGET)
        return
    memory = bench.spark().conf.get("spark.driver.memory", "1g") or "1g"
    fetched = (bench.fetched or bench.folder / "fetched").absolute()
    bench.step("fetching and starting Delta")
    try:
        folder = bench.folder / "fill" / "Delta"
        peer: Peer = bench.shared("fill Delta", lambda: Peer("Delta", fetched, folder, memory))
    except Unreachable as error:
        yield Line("spark_fill", case, reason=f"no Delta: {error}", target=TARGET)
        return
    bench.step(f"loading {rows:,} rows")
    table = _load(bench, peer, rows)
    ours, theirs = itertools.count(), itertools.count()
    contenders = {
        "ours": Contender(lambda: table.add_column(f"score{next(ours)}", "double", from_sql=_VALUES)),
        "Delta": Contender(lambda: _rewrite(peer, f"score{next(theirs)}")),
    }
    bench.step(case)
    samples = take_turns(contenders, min(_TURNS, bench.runs), warm_up=1)
    _check(table, peer)
    title = f"Delta {peer.release.version} on Spark {peer.release.spark}"
    yield Line("spark_fill", case, samples["ours"], samples["Delta"], title, TARGET)


def _load(bench: Bench, peer: Peer, rows: int) -> Table:
    """The same rows on both sides."""
    folder = bench.folder / "wide.parquet"
    folder.mkdir()
    table = bench.lake().create_table("bench.spark_fill", COLUMNS)
    for number, piece in enumerate(pieces(rows)):
        pq.write_table(piece, Path(folder) / f"{number}.parquet")
        table.append(piece)
    peer.load(folder, folder)
    return table


def _rewrite(peer: Peer, name: str) -> None:
    peer.run(f"alter table {{t}} add columns ({name} double)")
    peer.run(f"update {{t}} set {name} = {_VALUES}")


def _check(table: Table, peer: Peer) -> None:
    column: Any = table.scan(columns=["score0"]).to_arrow()["score0"]
    mine, other = pc.sum(column).as_py(), peer.run("select sum(score0) from {t}")[0]
    if not math.isclose(mine, float(other), rel_tol=1e-9, abs_tol=1e-6):
        raise AssertionError(f"Delta's sum is {other}, ours {mine}.")
