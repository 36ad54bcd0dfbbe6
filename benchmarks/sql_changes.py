"""UPDATE, DELETE and MERGE in SQL beside Spark that writes all rows again, Delta Lake and Iceberg; a small query."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import events, lakes
from benchmarks.harness import Bench, Contender, Line, Sample, take_turns
from benchmarks.sql_peer import Peer, Unreachable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from moulin import Lake, Table

TITLE = "UPDATE, DELETE, MERGE in SQL / all rows written again, Delta, Iceberg"
NAME = "sql_changes"
OVERHEAD = 0.010
_PEERS = ("Delta", "Iceberg")  # those whose tables can be set back to a version
_ROWS = 100_000
_FEW = f"user < {events.USERS // 100}"  # a random hundredth of the rows
_PLAIN = "all rows written again"
_SUMMARY = "select count(*), sum(id), sum(cast(round(amount * 100) as bigint)) from {t}"
_QUICK_RUNS = 40


@dataclass(frozen=True, slots=True)
class _Case:
    """A statement, what plain Spark does instead, and the targets against the peers."""

    text: str
    rewritten: Callable[[DataFrame, DataFrame], DataFrame]
    targets: Mapping[str, float]


def run(bench: Bench) -> Iterator[Line]:
    spark, lake = bench.spark(), bench.lake()
    changed = changed_rows(bench)
    source = spark.read.parquet(str(changed))
    source.createOrReplaceTempView("changed_rows")
    table = lakes.events_table(bench, "bench.changed")
    bench.step("loading bench.changed")
    for file in sorted(bench.events().glob("*.parquet")):
        table.append(pq.read_table(file))
    table.compact(everything=True)
    peers, reasons = _peers(bench, changed)
    cases = _cases(bench)
    for name, case in cases.items():
        if not bench.wants_case(name):
            continue
        yield from _compare(bench, lake, table, name, case, source, peers)
        for peer, reason in reasons.items():
            yield Line(NAME, f"{name} / {peer}", reason=reason, target=case.targets.get(peer))
    if bench.wants_case("a small query"):
        yield from _overhead(bench, lake)


def changed_rows(bench: Bench) -> Path:
    """Rows to merge: random ids, half of them in the table, in no order."""
    random = np.random.default_rng(7)
    half = min(_ROWS, bench.rows // 5) // 2
    old, new = random.choice(bench.rows, half, replace=False), bench.rows + random.permutation(half)
    ids = random.permutation(np.concatenate([old, new]))
    rows = events.make(len(ids), seed=99).set_column(0, "id", pa.array(ids))
    path = bench.folder / "changed_rows.parquet"
    pq.write_table(rows, path)
    return path


def _cases(bench: Bench) -> dict[str, _Case]:
    from pyspark.sql import functions as F

    def updated(rows: DataFrame, _: DataFrame) -> DataFrame:
        return rows.withColumn("amount", F.when(F.expr(_FEW), F.col("amount") + 1).otherwise(F.col("amount")))

    def merged(rows: DataFrame, source: DataFrame) -> DataFrame:
        given = source.select("id", *(F.col(name).alias(f"s_{name}") for name in events.SCHEMA.names[1:]))
        joined = rows.withColumn("was", F.lit(True)).join(given, "id", "full_outer")
        matched = F.col("was") & F.col("s_ts").isNotNull()
        columns = [
            F.when(matched if name in ("amount", "note") else F.lit(False), F.col(f"s_{name}"))
            .when(F.col("was"), F.col(name))
            .otherwise(F.col(f"s_{name}"))
            .alias(name)
            for name in events.SCHEMA.names[1:]
        ]
        return joined.select("id", *columns)

    merge = (
        "merge into {t} as t using changed_rows as s on t.id = s.id when matched then update set amount = s.amount, "
        "note = s.note when not matched then insert *"
    )
    share = f"1 % of {bench.rows:,} rows"
    rows = min(_ROWS, bench.rows // 5)
    return {
        f"UPDATE of {share}": _Case(
            f"update {{t}} set amount = amount + 1 where {_FEW}", updated, {"Delta": 0.5, "Iceberg": 0.8}
        ),
        f"DELETE of {share}": _Case(
            f"delete from {{t}} where {_FEW}", lambda rows, _: rows.where(f"not ({_FEW})"), {"Iceberg": 0.8}
        ),
        f"MERGE of {rows:,} rows into {bench.rows:,}, by no key": _Case(merge, merged, {"Delta": 0.5, "Iceberg": 0.8}),
    }


def _compare(
    bench: Bench, lake: Lake, table: Table, name: str, case: _Case, source: DataFrame, peers: Mapping[str, Peer]
) -> Iterator[Line]:
    spark = bench.spark()
    loaded, folder, plain = table.version, bench.folder / "rewritten", bench.wants_peer(_PLAIN)

    def rewrite() -> None:
        rows = spark.read.parquet(str(bench.events()))
        case.rewritten(rows, source).write.option("compression", "zstd").parquet(str(folder))

    contenders = {
        "": Contender(lambda: lake.sql(case.text.replace("{t}", table.name)), lambda: table.restore(loaded)),
        **({_PLAIN: Contender(rewrite, lambda: shutil.rmtree(folder, ignore_errors=True))} if plain else {}),
        **{peer: Contender(lambda one=one: one.run(case.text), one.reset) for peer, one in peers.items()},
    }
    bench.step(name)
    turn = 0

    def after_turn() -> None:
        nonlocal turn
        turn += 1
        bench.step(f"{name}: run {turn} of {bench.runs + 1}")

    samples = take_turns(contenders, bench.runs, after_turn=after_turn)
    ours = list(lake.sql(_SUMMARY.replace("{t}", table.name)).first() or ())
    if plain:
        spark.read.parquet(str(folder)).createOrReplaceTempView("rewritten")
        _require_equal(_PLAIN, ours, list(spark.sql(_SUMMARY.replace("{t}", "rewritten")).first() or ()))
    for peer, one in peers.items():
        if not one.vectors():
            raise AssertionError(f"{peer} wrote files again, and no deletion vectors.")
        _require_equal(peer, ours, one.run(_SUMMARY))
    table.restore(loaded)
    shutil.rmtree(folder, ignore_errors=True)
    for peer in contenders:
        if peer:
            yield Line(NAME, f"{name} / {peer}", samples[""], samples[peer], peer, case.targets.get(peer))


def _require_equal(peer: str, ours: list[Any], theirs: list[Any]) -> None:
    if ours != theirs:
        raise AssertionError(f"Count and sums are {ours} here and {theirs} with {peer}.")


def _peers(bench: Bench, changed: Path) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that can be had, and why the others cannot."""
    if not bench.peers:
        return {}, dict.fromkeys(_PEERS, "left out: --no-peers")
    found: dict[str, Peer] = {}
    reasons: dict[str, str] = {}
    memory = bench.spark().conf.get("spark.driver.memory", "1g") or "1g"
    folder, fetched = bench.folder / "peers", (bench.fetched or bench.folder / "fetched").absolute()
    for name in _PEERS:
        if not bench.wants_peer(name):
            continue
        bench.step(f"fetching and loading {name}")
        try:
            found[name] = bench.shared(f"peer {name}", lambda name=name: Peer(name, fetched, folder / name, memory))
            found[name].load(bench.events(), changed)
        except Unreachable as error:
            reasons[name] = f"no {name}: {error}"
    return found, reasons


def _overhead(bench: Bench, lake: Lake) -> Iterator[Line]:
    """A query of a few rows through `lake.sql`, less the same through Spark."""
    spark = bench.spark()
    rows = events.make(1000)
    small = lakes.events_table(bench, "bench.small")
    small.append(rows)
    path = bench.folder / "small.parquet"
    pq.write_table(rows, path)
    spark.read.parquet(str(path)).createOrReplaceTempView("small_rows")
    text = "select region, count(*), max(amount) from {} where user > 1000 group by region"
    samples = take_turns(
        {
            "": Contender(lambda: lake.sql(text.format("bench.small")).collect()),
            "Spark": Contender(lambda: spark.sql(text.format("small_rows")).collect()),
        },
        _QUICK_RUNS,
        warm_up=_QUICK_RUNS // 2,
    )
    yield Line(NAME, "a small query / plain Spark", samples[""], samples["Spark"], "Spark")
    more = tuple(a - b for a, b in zip(samples[""].seconds, samples["Spark"].seconds, strict=True))
    yield Line(NAME, "a small query, less plain Spark", Sample(more), target=OVERHEAD)
