"""Parallel clients of two servers, each with a connection of its own, on what only one of them can get."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

import grpc
import pytest

from tests.contract.conftest import Backend
from tests.meta.api import Api
from tests.meta.conftest import Live, name, serving
from tests.meta.rules import rule

CLIENTS = 6


@pytest.fixture(scope="module")
def clients(live: Live, backend: Backend) -> Iterator[list[Api]]:
    """Every second one is connected to another server of the same lake."""
    with serving(backend, uri=live.lake.uri, store=live.lake.store) as other:
        made = [Api(other if number % 2 else live).another() for number in range(CLIENTS)]
        yield made
        for client in made:
            client.close()


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each call answered, or the name of the status it failed with. All begin at once."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        gate.wait()
        try:
            return call()
        except grpc.RpcError as error:
            return error.code().name  # type: ignore[attr-defined]

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def codes(answers: list[Any]) -> Counter[str]:
    return Counter(answer if isinstance(answer, str) else "OK" for answer in answers)


@rule("DB-04")
def test_one_of_many_creates_a_database(clients: list[Api]) -> None:
    called = name("db")
    answers = together([partial(client.CreateDatabase, name=called) for client in clients])
    assert codes(answers) == {"OK": 1, "ALREADY_EXISTS": CLIENTS - 1}


@rule("TB-05")
def test_a_name_goes_to_a_table_or_to_a_view_never_to_both(clients: list[Api]) -> None:
    database_id, (member,) = clients[0].tables(1)
    for _ in range(3):
        called = name("x")
        answers = together(
            [
                partial(client.CreateTable, database_id=database_id, name=called)
                if number % 2
                else partial(client.CreateView, database_id=database_id, name=called, table_ids=[member])
                for number, client in enumerate(clients)
            ]
        )
        assert codes(answers) == {"OK": 1, "ALREADY_EXISTS": CLIENTS - 1}


@rule("TB-21", "GEN-25")
def test_a_table_is_deleted_or_referred_to_never_both(clients: list[Api]) -> None:
    first = clients[0]
    for _ in range(3):
        database_id, (table_id, other) = first.tables(2)
        view_id, (token_id, _) = first.view(database_id, [other]), first.token(database_id, other)
        routing = dict.fromkeys(("traces_table_id", "logs_table_id", "metrics_table_id"), table_id)
        ids: dict[str, Any] = {"database_id": database_id}
        answers = together(
            [
                partial(clients[0].DeleteTable, **ids, table_id=table_id),
                partial(clients[1].CreateView, **ids, name=name("v"), table_ids=[table_id]),
                partial(clients[2].SetViewTables, **ids, view_id=view_id, table_ids=[other, table_id]),
                partial(clients[3].CreateIngestToken, **ids, name=name("k"), **routing),
                partial(clients[4].UpdateIngestTokenRouting, **ids, token_id=token_id, routing=routing),
            ]
        )
        deleted = answers[0].HasField("tombstoned")
        for answer in answers[1:]:
            assert (answer == "FAILED_PRECONDITION") if deleted else not isinstance(answer, str)
        views = [m.id for view in first.ListViews(**ids).items for m in view.members]
        tokens = [token.routing.logs_table_id for token in first.ListIngestTokens(**ids).tokens]
        assert (table_id in views, table_id in tokens) == (not deleted, not deleted)


@rule("VW-11")
def test_members_of_a_view_are_one_list_or_the_other(clients: list[Api]) -> None:
    database_id, tables = clients[0].tables(4)
    view_id = clients[0].view(database_id, tables[:1])
    lists = [tables[:2], tables[2:]]
    ids = {"database_id": database_id, "view_id": view_id}
    seen: list[list[str]] = []

    def change(client: Api, members: list[str]) -> None:
        for _ in range(4):
            client.SetViewTables(**ids, table_ids=members)

    def watch(client: Api) -> None:
        for _ in range(8):
            seen.append([member.id for member in client.GetView(**ids).view.members])

    answers = together(
        [
            lambda: change(clients[0], lists[0]),
            lambda: change(clients[1], lists[1]),
            lambda: watch(clients[2]),
            lambda: watch(clients[3]),
        ]
    )
    assert codes(answers) == {"OK": 4}
    assert all(members in [tables[:1], *lists] for members in seen)
    assert [m.id for m in clients[0].GetView(**ids).view.members] in lists


@rule("IG-03")
def test_one_collector_gets_one_stream(clients: list[Api]) -> None:
    database_id, (table_id,) = clients[0].tables(1)
    plaintext, collector = clients[0].token(database_id, table_id)[1], name("c")
    answers = together([partial(client.stream, plaintext, collector) for client in clients])
    assert len(set(answers)) == 1
    assert sum(s.collector_id == collector for s in clients[0].GetIngestStreamsForNursery().streams) == 1


@rule("NU-37", "NU-26")
def test_one_of_many_nurseries_gets_a_range(clients: list[Api]) -> None:
    database_id, (table_id,), stream_id = clients[0].ingest()
    for start in (-1, 4):
        answers = together(
            [partial(client.register, database_id, table_id, stream_id, start, start + 5) for client in clients]
        )
        assert codes(answers) == {"OK": 1, "ABORTED": CLIENTS - 1}
    assert clients[0].live_segments(table_id) == 2


@rule("NU-33", "NU-32")
def test_a_request_sent_by_all_at_once_is_done_once(clients: list[Api]) -> None:
    first = clients[0]
    database_id, (table_id,), stream_id = first.ingest()
    merge = first.merge(database_id, table_id, first.offset(stream_id, table_id, -1, 3))
    request = {"database_id": database_id, "merges": [merge], "register_request_id": name("r")}
    answers = together([partial(client.RegisterMergedSegments, **request) for client in clients])
    assert codes(answers) == {"OK": CLIENTS}
    assert len({tuple(answer.segment_versions) for answer in answers}) == 1
    assert len({answer.meta_response_seq for answer in answers}) == CLIENTS
    assert first.live_segments(table_id) == 1


@rule("NU-31", "NU-38", "NU-30")
def test_versions_appear_in_order_while_many_register(clients: list[Api]) -> None:
    first = clients[0]
    database_id, tables, stream_id = first.ingest(CLIENTS - 1)
    catalog = first.live.catalog
    lost: list[str] = []

    def write(client: Api, table_id: str) -> list[int]:
        return [
            client.register(database_id, table_id, stream_id, offset - 1, offset).segment_versions[0]
            for offset in range(3)
        ]

    def watch() -> None:
        for _ in range(30):
            version = catalog.version()
            before = {table: len(catalog.segments(UUID(table), version)) for table in tables}
            after = {table: len(catalog.segments(UUID(table), version)) for table in tables}
            if before != after:
                lost.append(f"{version}: {before} {after}")

    writers = [partial(write, client, table) for client, table in zip(clients[1:], tables, strict=True)]
    answers = together([watch, *writers])
    assert codes(answers) == {"OK": CLIENTS}
    versions = [version for answer in answers[1:] for version in answer]
    assert len(set(versions)) == len(versions)
    assert not lost


@rule("NU-06", "NU-07")
def test_lists_are_complete_while_streams_are_made(clients: list[Api]) -> None:
    database_id, (table_id,) = clients[0].tables(1)
    plaintext = clients[0].token(database_id, table_id)[1]
    lists: list[Any] = []

    def watch(client: Api) -> None:
        lists.extend(client.GetIngestStreamsForNursery() for _ in range(10))

    def make(client: Api) -> None:
        for _ in range(5):
            client.stream(plaintext)

    together(
        [lambda c=client: make(c) for client in clients[2:]] + [lambda c=client: watch(c) for client in clients[:2]]
    )
    created = {s.stream_id: s.created_at_nanos for s in clients[0].GetIngestStreamsForNursery().streams}
    for listed in lists:
        shown = {stream.stream_id for stream in listed.streams}
        for stream_id, moment in created.items():
            assert stream_id in shown or moment > listed.stream_list_complete_through_nanos
    ordered = sorted(lists, key=lambda listed: listed.meta_response_seq)
    times = [listed.stream_list_complete_through_nanos for listed in ordered]
    assert times == sorted(times)
    assert len({listed.meta_response_seq for listed in lists}) == len(lists)
