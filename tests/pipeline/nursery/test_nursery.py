"""The nursery: what was stored is in tables exactly once, whoever dies or races; streams end; objects are trimmed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

import moulin
from moulin import Lake
from moulin.errors import Unavailable
from moulin.formats.baby_segment import (
    Entry,
    Kind,
    Payload,
    decode,
    decode_header,
    encode_data,
    encode_keep_alive,
    encode_stop,
)
from moulin.ingest.setup import set_up
from moulin.model.ingest import Routing, StopReason
from moulin.model.otel import SCHEMAS
from moulin.pipeline.nursery import ticker
from moulin.pipeline.nursery.nursery import Nursery
from moulin.pipeline.runner import SparkRunner
from moulin.storage import paths
from tests.commands import fork

NONCE = b"n" * 16
STARTED = time.time_ns() - 10**9


def logs(*bodies: str, table: str | None = None) -> bytes:
    made = ExportLogsServiceRequest()
    group = made.resource_logs.add()
    if table is not None:
        group.resource.attributes.add(key="moulin.table").value.string_value = table
    scope = group.scope_logs.add()
    for place, body in enumerate(bodies):
        scope.log_records.add(time_unix_nano=STARTED + len(bodies) - place).body.string_value = body
    return made.SerializeToString()  # type: ignore[no-any-return]


class Writer:
    """A stream as a collector writes it, object by object."""

    def __init__(self, lake: Lake, token: str, name: str = "one") -> None:
        self.lake, self.store = lake, lake.store
        made = lake.own_catalog().ingest.register_stream(token, name)
        self.id, self.token_id = made.stream.id, made.token.id
        self.offset = 0

    def put(self, data: bytes) -> int:
        self.store.put_if_absent(paths.baby_segment(self.id, self.offset), data)
        self.offset += 1
        return self.offset - 1

    def send(self, *requests: bytes, payload: Payload = Payload.LOGS, table: str = "") -> int:
        entries = [Entry(self.token_id, payload, 1, request, table) for request in requests]
        return self.put(encode_data(self.id, NONCE, self.offset, time.time_ns(), entries))

    def keep_alive(self) -> int:
        return self.put(encode_keep_alive(self.id, NONCE, self.offset, time.time_ns()))

    def stop(self) -> int:
        return self.put(encode_stop(self.id, NONCE, self.offset, 7, StopReason.CLIENT))

    def stream(self) -> Any:
        return self.lake.own_catalog().ingest.streams([self.id])[0]


def bodies(lake: Lake, table: str = "otel.logs") -> Counter[str]:
    return Counter(lake.table(table).scan(columns=["body"]).to_arrow()["body"].to_pylist())


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def otel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lake, str]]:
    address = tmp_path / "lake"
    options: dict[str, Any] = {}
    if request.param == "postgresql":
        address, options = request.getfixturevalue("postgres_url"), {"storage": str(tmp_path / "files")}
    with moulin.connect(address, **options) as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, token


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[tuple[Lake, str]]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, token


def test_what_is_stored_is_taken_once(otel: tuple[Lake, str]) -> None:
    lake, token = otel
    writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
    writer.send(logs("a", "b"), logs("c"))
    writer.keep_alive()
    before = lake.version
    report = nursery.run_once()
    assert (report.objects, report.rows, report.set_aside) == (2, 3, 0)
    assert report.version == before + 1
    assert bodies(lake) == Counter("abc")
    assert writer.stream().frontier == 1
    assert nursery.run_once().objects == 0
    assert lake.version == before + 1, "with nothing new, nothing is committed"
    writer.send(logs("d"))
    assert Nursery(lake, spark=False).run_once().rows == 1
    assert bodies(lake) == Counter("abcd")


def test_nothing_comes_in_at_or_below_what_is_known_to_be_complete(embedded: tuple[Lake, str]) -> None:
    """Ingest times are whole seconds: the next object may have the same one as the last that was merged (INV-8)."""
    lake, token = embedded
    writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
    for body in "abcdef":
        writer.send(logs(body))
        mark = writer.stream().known_complete_through if writer.offset > 1 else 0
        before = _times(lake)
        nursery.run_once()
        assert [time for time in _times(lake) if time <= mark] == [time for time in before if time <= mark]


def _times(lake: Lake) -> list[int]:
    times = lake.table("otel.logs").scan(columns=["ingest_time"]).to_arrow()["ingest_time"]
    return sorted(time * 1000 for time in times.cast("int64").to_pylist())


def test_segments_are_sorted_by_time_and_split_by_partition(embedded: tuple[Lake, str]) -> None:
    lake, token = embedded
    writer = Writer(lake, token)
    writer.send(logs(*"cba"), logs(*"fed"))
    Nursery(lake, spark=False).run_once()
    table = lake.table("otel.logs")
    times = table.scan(columns=["event_time"]).to_arrow()["event_time"].to_pylist()
    assert times == sorted(times)
    assert len(times) == 6
    assert table.stats().segments == 1


def test_the_times_of_a_row_are_those_of_its_object(embedded: tuple[Lake, str]) -> None:
    lake, token = embedded
    writer = Writer(lake, token)
    writer.send(logs("a"))
    Nursery(lake, spark=False).run_once()
    row = lake.table("otel.logs").scan().to_arrow().to_pylist()[0]
    stored = lake.store.head(paths.baby_segment(writer.id, 0)).modified
    arrived = row["ingest_time"]
    arrived = arrived if isinstance(arrived, datetime) else arrived.to_pydatetime()
    assert 0 <= (arrived.astimezone(UTC) - stored).total_seconds() < 1
    assert arrived.microsecond == 0


def test_records_are_routed_by_name_and_others_fall_back(embedded: tuple[Lake, str]) -> None:
    lake, token = embedded
    own = lake.table("otel.logs")
    lake.create_table("otel.audit", SCHEMAS["logs"], event_time="event_time")
    writer = Writer(lake, token)
    writer.send(logs("a", table="audit"), logs("b", table="nowhere"), logs("c"))
    report = Nursery(lake, spark=False).run_once()
    assert bodies(lake, "otel.audit") == Counter("a")
    assert bodies(lake) == Counter("bc")
    assert report.fallen_back == 1
    assert {table.table_id for table in writer.stream().tables} == {own.id, lake.table("otel.audit").id}


def test_a_stop_object_ends_a_stream(otel: tuple[Lake, str]) -> None:
    lake, token = otel
    writer = Writer(lake, token)
    writer.send(logs("a"))
    writer.stop()
    assert Nursery(lake, spark=False).run_once().stopped == 1
    stream = writer.stream()
    assert (stream.frontier, stream.stopped_offset, stream.stopped_at) == (0, 0, 7)
    assert stream.stop_reason is StopReason.CLIENT
    assert stream.is_drained
    assert bodies(lake) == Counter("a")


def test_a_silent_stream_is_ended_and_its_writer_fenced(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", stream_timeout=0.0) as lake:
        token = set_up(lake).token
        assert token is not None
        writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
        writer.send(logs("a"))
        assert nursery.run_once().stopped == 0, "it had just said something"
        time.sleep(1.1)  # ingest times are rounded up to the second
        assert nursery.run_once().stopped == 1
        header = decode_header(lake.store.get(paths.baby_segment(writer.id, 1)), source="stop")
        assert (header.kind, header.reason) == (Kind.STOP, StopReason.TIMEOUT)
        assert writer.stream().stopped_offset == 0
        with pytest.raises(moulin.errors.AlreadyExists):
            writer.send(logs("b"))


def test_poison_is_set_aside_and_the_stream_goes_on(otel: tuple[Lake, str]) -> None:
    lake, token = otel
    writer = Writer(lake, token)
    writer.send(logs("a"), b"\xff\xff no request", logs("b"))
    bad = writer.put(b"no baby segment at all, but longer than the header of one would be" * 4)
    writer.send(b'{"body": "row"}\n', payload=Payload.NDJSON, table="gone")
    writer.send(logs("c"))
    report = Nursery(lake, spark=False).run_once()
    assert bodies(lake) == Counter("abc")
    assert report.set_aside == 2, "of the damaged object it is not known"
    asides = [aside for _, aside in lake.own_catalog().ingest.set_asides(writer.id)]
    assert sorted(aside.offset for aside in asides) == [0, 1, 2]
    first = next(aside for aside in asides if aside.offset == 0)
    kept = decode(lake.store.get(first.path), source=first.path, stream_id=writer.id, offset=0)
    assert [entry.data for entry in kept.entries] == [b"\xff\xff no request"]
    damaged = next(aside for aside in asides if aside.offset == bad)
    assert lake.store.get(damaged.path) == lake.store.get(paths.baby_segment(writer.id, bad))
    assert writer.stream().frontier == 3


def test_rows_appended_by_name_land_in_their_table_or_are_set_aside(embedded: tuple[Lake, str]) -> None:
    lake, token = embedded
    lake.create_table("otel.orders", [("id", "long"), ("shop", "string")])
    writer = Writer(lake, token)
    writer.send(b'{"id": 1, "shop": "x"}\n{"id": 2}\n', payload=Payload.NDJSON, table="orders")
    writer.send(b'{"id": 3, "unknown": 1}\n', payload=Payload.NDJSON, table="orders")
    Nursery(lake, spark=False).run_once()
    assert lake.table("otel.orders").scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "shop": "x"},
        {"id": 2, "shop": None},
    ]
    assert [aside.offset for _, aside in lake.own_catalog().ingest.set_asides()] == [1]


def test_attribute_keys_that_come_twice_are_counted(embedded: tuple[Lake, str]) -> None:
    lake, token = embedded
    made = ExportLogsServiceRequest()
    record = made.resource_logs.add().scope_logs.add().log_records.add()
    for text in ("first", "second", "last"):
        record.attributes.add(key="a").value.string_value = text
    Writer(lake, token).send(made.SerializeToString())
    report = Nursery(lake, spark=False).drain()
    assert (report.rows, report.repeated_keys) == (1, 2)
    assert lake.table("otel.logs").scan().to_arrow()["attributes"].to_pylist() == [[("a", "last")]]


def test_new_routing_makes_a_batch_planned_anew(otel: tuple[Lake, str], monkeypatch: pytest.MonkeyPatch) -> None:
    lake, token = otel
    own = lake.table("otel.logs")
    other = lake.create_table("otel.other", SCHEMAS["logs"], event_time="event_time")
    writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
    writer.send(logs("a"))
    catalog = lake.own_catalog().ingest
    commit, calls = catalog.commit_nursery_batch, 0

    def rerouted_before(batch: Any, *, request_id: str) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            routing = Routing(traces=own.id, logs=other.id, metrics=own.id)
            catalog.set_token_routing("otel", "default", routing)
        return commit(batch, request_id=request_id)

    monkeypatch.setattr(catalog, "commit_nursery_batch", rerouted_before)
    nursery.run_once()
    assert calls == 2
    assert bodies(lake) == Counter()
    assert bodies(lake, "otel.other") == Counter("a")
    data = [i for i in lake.store.list(paths.table_prefix(own.id)) if i.path.endswith(".parquet")]
    assert data == [], "files of the refused batch are gone"


def test_two_nurseries_take_everything_once(otel: tuple[Lake, str], monkeypatch: pytest.MonkeyPatch) -> None:
    lake, token = otel
    writer, other = Writer(lake, token), Writer(lake, token, "two")
    sent = []
    for number in range(6):
        one = writer if number % 2 else other
        one.send(logs(f"r{number}"))
        sent.append(f"r{number}")
    first, second = Nursery(lake, spark=False), Nursery(lake, spark=False)
    mill = first._mill

    def overtaken(*arguments: Any) -> Any:
        milled = mill(*arguments)
        second.run_once()
        return milled

    monkeypatch.setattr(first, "_mill", overtaken)
    assert first.run_once().rows == 0, "the other was first"
    assert bodies(lake) == Counter(sent)


def test_a_lost_answer_of_the_commit_changes_nothing(
    embedded: tuple[Lake, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, token = embedded
    writer = Writer(lake, token)
    writer.send(logs("a"))
    catalog = lake.own_catalog().ingest
    commit, requests = catalog.commit_nursery_batch, []

    def lost(batch: Any, *, request_id: str) -> Any:
        requests.append(request_id)
        done = commit(batch, request_id=request_id)
        if len(requests) == 1:
            raise Unavailable("The answer was lost.")
        return done

    monkeypatch.setattr(catalog, "commit_nursery_batch", lost)
    assert Nursery(lake, spark=False).run_once().rows == 1
    assert len(requests) == 2
    assert len(set(requests)) == 1
    assert bodies(lake) == Counter("a")


class _Dead(BaseException):
    """Stands for a kill: nothing catches it."""


def test_death_at_every_step_loses_and_doubles_nothing(
    embedded: tuple[Lake, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nursery dies before and after each call of store and catalog, in turn; the next one does the rest."""
    lake, token = embedded
    catalog = lake.own_catalog().ingest
    names = {
        lake.store: ("list", "get", "put", "put_if_absent", "writer", "delete"),
        catalog: ("stream_list", "target", "commit_nursery_batch", "stop_stream", "set_deleted_offset"),
    }
    countdown = [10**9]

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            countdown[0] -= 1
            if countdown[0] == 0:
                raise _Dead
            answer = call(*arguments, **named)
            countdown[0] -= 1
            if countdown[0] == 0:
                raise _Dead
            return answer

        return wrapped

    sent: Counter[str] = Counter()
    deaths = step = 0
    died = True
    while died:
        step += 1
        writer = Writer(lake, token, f"collector {step}")
        writer.send(logs(f"{step}-a"), b"\xff poison")
        writer.send(logs(f"{step}-b"))
        writer.stop()
        sent.update([f"{step}-a", f"{step}-b"])
        with monkeypatch.context() as patched:
            for holder, methods in names.items():
                for name in methods:
                    patched.setattr(holder, name, dying(getattr(holder, name)))
            countdown[0] = step
            try:
                Nursery(lake, spark=False).run_once()
                died = False
            except _Dead:
                deaths += 1
            countdown[0] = 10**9
        if step % 4 == 0 or not died:
            assert not Nursery(lake, spark=False).drain().more
            assert bodies(lake) == sent
    assert deaths > 10
    assert len(catalog.set_asides()) == step
    assert all(stream.is_drained for stream in catalog.stream_list().streams)


def test_an_object_that_makes_tasks_fail_is_quarantined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with moulin.connect(tmp_path / "lake", nursery_failures=2) as lake:
        token = set_up(lake).token
        assert token is not None
        writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
        for body in "abc":
            writer.send(logs(body))
        from moulin.pipeline.nursery import nursery as module

        mill = module.mill

        def fails(task: Any) -> Any:
            if any(baby_segment.offset == 1 for baby_segment in task.baby_segments):
                raise RuntimeError("the worker died")
            return mill(task)

        monkeypatch.setattr(module, "mill", fails)
        failures = 0
        while writer.stream().frontier < 2:
            try:
                nursery.run_once()
            except RuntimeError:
                failures += 1
        assert failures < 10
        assert bodies(lake) == Counter("ac")
        [(_, aside)] = lake.own_catalog().ingest.set_asides()
        assert (aside.offset, "the worker died" in aside.reason) == (1, True)
        assert lake.store.get(aside.path) == lake.store.get(paths.baby_segment(writer.id, 1))


def _die_of_an_object(folder: str) -> None:
    """A nursery, in a process of its own, that the second object kills."""
    from moulin.pipeline.nursery import nursery as module

    mill = module.mill  # type: ignore[attr-defined]

    def kills(task: Any) -> Any:
        if any(baby_segment.offset == 1 for baby_segment in task.baby_segments):
            os.kill(os.getpid(), signal.SIGKILL)
        return mill(task)

    module.mill = kills  # type: ignore[attr-defined]
    with moulin.connect(folder, nursery_failures=2, nursery_try_age=0) as lake:
        Nursery(lake, spark=False).drain()


@pytest.mark.long
@pytest.mark.crash
def test_an_object_that_kills_nurseries_is_set_aside_by_their_successors(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        for body in "abc":
            writer.send(logs(body))
        codes: list[int | None] = []
        while writer.stream().frontier < 2:
            process = fork(_die_of_an_object, lake.uri)
            process.join()
            codes.append(process.exitcode)
            assert len(codes) < 12
        assert bodies(lake) == Counter("ac")
        [(_, aside)] = lake.own_catalog().ingest.set_asides()
        assert (aside.offset, "died" in aside.reason) == (1, True)
        assert codes.count(-signal.SIGKILL) == len(codes) - 1
        assert list(lake.store.list("nursery-tries")) == [], "notes of what is done are gone"


def test_objects_are_trimmed_after_their_grace_and_never_before(tmp_path: Path) -> None:
    clock = [time.time_ns()]
    store_path = tmp_path / "lake"
    with moulin.Lake.open(store_path, clock=lambda: clock[0]) as lake:
        token = set_up(lake).token
        assert token is not None
        writer, nursery = Writer(lake, token), Nursery(lake, spark=False)
        writer.send(logs("a"))
        nursery.run_once()
        writer.send(logs("b"))
        writer.stop()

        def there() -> list[int]:
            return [offset for offset in range(3) if lake.store.exists(paths.baby_segment(writer.id, offset))]

        assert nursery.trim() == 0
        clock[0] += 3601 * 10**9
        pin = lake.catalog.pin(lake.table("otel.logs").id, lake.version - 1)
        assert nursery.trim() == 0, "a pinned version needs it"
        lake.catalog.unpin(pin)
        assert nursery.trim() == 1
        assert there() == [1, 2], "what is not merged stays"
        nursery.run_once()
        assert there() == [1, 2]
        clock[0] += 3601 * 10**9
        assert nursery.trim() == 2
        assert there() == []
        assert writer.stream().retired_at is not None
        assert bodies(lake) == Counter("ab")


def test_batches_are_bounded_and_drain_takes_all(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", nursery_batch_bytes=600) as lake:
        token = set_up(lake).token
        assert token is not None
        writers = [Writer(lake, token, name) for name in ("one", "two")]
        sent: Counter[str] = Counter()
        for number in range(12):
            body = f"{number} " + "x" * 50
            writers[number % 2].send(logs(body))
            sent[body] += 1
        nursery = Nursery(lake, spark=False)
        first = nursery.run_once()
        assert first.more
        assert first.objects < 12
        assert all(writer.stream().frontier >= 0 for writer in writers), "no stream waits for another"
        nursery.drain()
        assert bodies(lake) == sent


def test_a_nursery_on_spark_takes_everything_once(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, run_job = [], SparkRunner.map
    monkeypatch.setattr(SparkRunner, "map", lambda *given, **more: jobs.append(1) or run_job(*given, **more))
    with moulin.connect(tmp_path / "lake", nursery_local_bytes=1) as lake:
        lake.context.spark().session()
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        writer.send(logs("a"), b"\xff poison", logs("b"))
        writer.send(logs("c"))
        report = Nursery(lake).run_once()
        assert (report.rows, report.set_aside, len(jobs)) == (3, 1, 1)
        assert bodies(lake) == Counter("abc")


@pytest.mark.spark
def test_structured_streaming_ticks(tmp_path: Path, spark: Any) -> None:
    with moulin.connect(tmp_path / "lake", nursery_batch_bytes=1) as lake:
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        writer.send(logs("a"))
        writer.send(logs("b"))
        reports: list[Any] = []
        drained = ticker.start(spark, Nursery(lake), interval=None, on_batch=reports.append)
        assert drained.awaitTermination(60)
        assert [report.objects for report in reports] == [2]
        ticking = ticker.start(spark, Nursery(lake), interval=0.2)  # its checkpoint is another one
        try:
            writer.send(logs("c"))
            deadline = time.monotonic() + 60
            while (writer.stream().frontier < 2 or not ticking.lastProgress) and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            ticking.stop()
        assert ticking.lastProgress is not None
        assert bodies(lake) == Counter("abc")


@pytest.mark.spark
def test_a_tick_that_fails_is_followed_by_another(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        Writer(lake, token).send(logs("a"))
        nursery, run_once, failures = Nursery(lake), Nursery.run_once, iter([1, 2])

        def failing(self: Nursery) -> Any:
            if next(failures, None) is not None:
                raise Unavailable("The store is away.")
            return run_once(self)

        monkeypatch.setattr(Nursery, "run_once", failing)
        done = threading.Event()
        query = ticker.start(spark, nursery, interval=0.1, on_batch=lambda report: done.set())
        try:
            assert done.wait(60)
        finally:
            query.stop()
        assert bodies(lake) == Counter("a")
