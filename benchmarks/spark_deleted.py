"""A sum by region after upserts and deletes, beside Iceberg; and with half of the rows deleted, beside none.

Iceberg runs on another version of Spark, so that each side is also divided by plain Parquet on its own Spark: the live
rows in four files of equal size, written by that Spark, which keep all cores busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import events, lakes
from benchmarks.harness import Bench, Contender, Line, Sample, take_turns
from benchmarks.sql_changes import changed_rows
from benchmarks.sql_peer import Peer, Unreachable
from moulin.table.table import Table

TITLE = "Spark aggregate after upserts and deletes"
NAME = "spark_deleted"
PEER = "Iceberg"
AGAINST_PEER, HALF_DELETED = 1.0, 1.3
_WARM_SECONDS = 20.0
_PLAIN = "plain Parquet"
_CHANGES = (
    "merge into {t} as t using changed_rows as s on t.id = s.id when matched then update set * "
    "when not matched then insert *",
    f"delete from {{t}} where {events.FIVE_PERCENT}",
    "update {t} set amount = amount + 1 where user % 100 = 7",
)
_QUERY = "select region, sum(amount) as total from {t} group by region"
_CHECK = "select count(*), sum(id), sum(cast(round(amount * 100) as bigint)) from {t}"
_COPY = "insert overwrite directory '{}' using parquet select /*+ repartition(4) */ * from {}"
_HALF = "delete from {} where id % 2 = 0"


def run(bench: Bench) -> Iterator[Line]:
    bench.spark()
    if bench.wants_case("upserts and deletes"):
        yield from _against_peer(bench)
    if bench.wants_case("half deleted"):
        yield _half_deleted(bench)


def _against_peer(bench: Bench) -> Iterator[Line]:
    case = f"sum by region of {bench.rows:,} rows, after upserts and deletes"
    spark, lake = bench.spark(), bench.lake()
    changed = changed_rows(bench)
    spark.read.parquet(str(changed)).createOrReplaceTempView("changed_rows")
    table = lakes.events_table(bench, "bench.deleted")
    for file in sorted(bench.events().glob("*.parquet")):
        table.append(pq.read_table(file))
    table.compact(everything=True)

    def ours(text: str) -> list[object]:
        return [tuple(row) for row in lake.sql(text.replace("{t}", table.name)).collect()]

    for text in _CHANGES:
        bench.step(text)
        ours(text)
    own_files = bench.folder / "live"
    spark.sql(_COPY.format(own_files, "{rows}"), rows=lake.sql(f"select * from {table.name}"))

    def plain() -> object:
        return spark.sql(_QUERY.replace("{t}", f"parquet.`{own_files}`")).collect()

    contenders: dict[str, Callable[[], object]] = {"": lambda: ours(_QUERY), _PLAIN: plain}
    try:
        peer = _peer(bench, changed)
    except Unreachable as error:
        yield Line(NAME, f"{case} / {PEER}", reason=f"no {PEER}: {error}", target=AGAINST_PEER)
    else:
        for text in _CHANGES:
            bench.step(f"{PEER}: {text}")
            peer.run(text)
        if list(ours(_CHECK)[0]) != peer.run(_CHECK):  # type: ignore[call-overload]
            raise AssertionError(f"{PEER} has other rows.")
        files = bench.folder / "peer-live"
        peer.run(_COPY.format(files, "{t}"))
        contenders[PEER] = lambda: peer.run(_QUERY)
        contenders[f"{PEER}'s {_PLAIN}"] = lambda: peer.run(_QUERY.replace("{t}", f"parquet.`{files}`"))
    _warm(bench, contenders)
    samples = take_turns({name: Contender(one) for name, one in contenders.items()}, bench.runs)
    yield Line(NAME, f"{case} / {_PLAIN}", samples[""], samples[_PLAIN], _PLAIN)
    if PEER in samples:
        yield Line(NAME, f"{case} / {PEER}", samples[""], samples[PEER], PEER, AGAINST_PEER)
        own, theirs = _ratios(samples[""], samples[_PLAIN]), _ratios(samples[PEER], samples[f"{PEER}'s {_PLAIN}"])
        name = f"{case}, each / {_PLAIN} on its own Spark"
        yield Line(NAME, name, own, theirs, PEER, AGAINST_PEER, unit="times")


def _half_deleted(bench: Bench) -> Line:
    lake = bench.lake()
    whole = lakes.merged_table(bench)
    half = lakes.events_table(bench, "bench.half")
    bench.step("loading bench.half")
    for file in sorted(bench.events().glob("*.parquet")):
        half.append(pq.read_table(file))
    half.compact(everything=True)
    lake.sql(_HALF.format(half.name))

    def query(table: Table) -> Callable[[], object]:
        return lambda: lake.sql(_QUERY.replace("{t}", table.name)).collect()

    contenders = {"": query(half), "none": query(whole)}
    _warm(bench, contenders)
    samples = take_turns({name: Contender(one) for name, one in contenders.items()}, bench.runs)
    name = f"sum by region of {bench.rows:,} rows, half deleted / none deleted"
    return Line(NAME, name, samples[""], samples["none"], "none deleted", HALF_DELETED)


def _peer(bench: Bench, changed: Path) -> Peer:
    if not bench.peers or not bench.wants_peer(PEER):
        raise Unreachable("left out")
    fetched = (bench.fetched or bench.folder / "fetched").absolute()
    memory = bench.spark().conf.get("spark.driver.memory", "1g") or "1g"
    bench.step(f"fetching and loading {PEER}")
    folder = bench.folder / "peers" / f"{PEER}-deleted"
    found: Peer = bench.shared(
        f"peer {PEER} for deletes",
        lambda: Peer(PEER, fetched, folder, memory),
    )
    found.load(bench.events(), changed)
    return found


def _ratios(one: Sample, other: Sample) -> Sample:
    return Sample(tuple(a / b for a, b in zip(one.seconds, other.seconds, strict=True)))


def _warm(bench: Bench, queries: Mapping[str, Callable[[], object]]) -> None:
    """Until Java has compiled what they run."""
    bench.step("warming up")
    end = time.monotonic() + _WARM_SECONDS
    while time.monotonic() < end:
        for query in queries.values():
            query()
