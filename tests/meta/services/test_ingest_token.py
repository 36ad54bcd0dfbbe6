"""IngestTokenService."""

from __future__ import annotations

import logging
import re

import pytest
import sqlalchemy as sa
from grpc import StatusCode

from moulin.catalog.sql.schema import metadata
from tests.meta.api import NOBODY, SECOND, Api
from tests.meta.conftest import Live, name, refused
from tests.meta.rules import rule

TARGETS = ("traces_table_id", "logs_table_id", "metrics_table_id")


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


def routing(*table_ids: str) -> dict[str, str]:
    return dict(zip(TARGETS, table_ids, strict=True))


@rule("TK-02", "TK-05", "TK-07", "TK-17", "GEN-12", "GEN-04")
def test_a_created_token_validates_to_its_routing(api: Api) -> None:
    database_id, (one, two, three) = api.tables(3)
    called = name("tok")
    made = api.CreateIngestToken(database_id=database_id, name=called, **routing(one, two, three))
    assert re.fullmatch(r"ing_[0-9a-f]{16}_[\w-]{43}", made.plaintext_token)
    assert made.token.token_hint == made.plaintext_token[-4:]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", made.token.created_at)
    assert made.token.database_id == database_id
    assert not made.token.HasField("tombstone")
    valid = api.ValidateIngestToken(plaintext_token=made.plaintext_token)
    assert (valid.token_id, valid.database_id) == (made.token.id, database_id)
    assert valid.routing == made.token.routing
    assert (valid.routing.traces_table_id, valid.routing.metrics_table_id) == (one, three)
    with refused(StatusCode.ALREADY_EXISTS):
        api.CreateIngestToken(database_id=database_id, name=called, **routing(one, one, one))
    assert api.token(database_id, one)[1] != made.plaintext_token


@rule("TK-01", "TK-03", "TK-14")
def test_a_token_needs_three_live_tables_of_its_database(api: Api) -> None:
    database_id, (one, dead) = api.tables(2)
    _, (foreign,) = api.tables(1)
    api.DeleteTable(database_id=database_id, table_id=dead)
    token_id, _ = api.token(database_id, one)
    before = api.GetIngestToken(database_id=database_id, token_id=token_id)
    for bad, code in (
        ("", StatusCode.INVALID_ARGUMENT),
        ("x", StatusCode.INVALID_ARGUMENT),
        (foreign, StatusCode.INVALID_ARGUMENT),
        (dead, StatusCode.FAILED_PRECONDITION),
        (NOBODY, StatusCode.NOT_FOUND),
    ):
        for place in range(3):
            targets = [one, one, one]
            targets[place] = bad
            with refused(code):
                api.CreateIngestToken(database_id=database_id, name=name("tok"), **routing(*targets))
            with refused(code):
                api.UpdateIngestTokenRouting(database_id=database_id, token_id=token_id, routing=routing(*targets))
    with refused(StatusCode.INVALID_ARGUMENT):
        api.CreateIngestToken(database_id=database_id, name="", **routing(one, one, one))
    assert api.GetIngestToken(database_id=database_id, token_id=token_id) == before


@rule("TK-04", "TK-06", "IG-08")
def test_a_plaintext_is_nowhere_but_in_its_answer(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database_id, (table_id,) = api.tables(1)
    token_id, plaintext = api.token(database_id, table_id)
    ids = {"database_id": database_id, "token_id": token_id}
    secret = plaintext.split("_", 2)[2]
    api.stream(plaintext)
    answers = [
        api.GetIngestToken(**ids),
        api.ListIngestTokens(database_id=database_id, include_deleted=True),
        api.UpdateIngestTokenRouting(**ids, routing=routing(table_id, table_id, table_id)),
        api.ValidateIngestToken(plaintext_token=plaintext),
        api.DeleteIngestToken(**ids),
        api.ResurrectIngestToken(**ids),
    ]
    with refused(StatusCode.UNAUTHENTICATED) as seen:
        api.ValidateIngestToken(plaintext_token=plaintext + "x")
    api.live.catalog.publisher.publish()
    store = api.live.lake.store
    stored = b"".join(store.get(info.path) for info in store.list())
    with api.live.catalog.pool.read() as connection:
        rows = [str(row) for table in metadata.sorted_tables for row in connection.execute(sa.select(table))]
    for place in (str(answers), seen[0].message, caplog.text, "\n".join(rows), stored.decode(errors="replace")):
        assert secret not in place
    assert stored


@rule("TK-08", "TK-09", "TK-10", "TK-11", "IG-07", "GEN-21", "GEN-22")
def test_a_deleted_token_is_refused_like_an_unknown_one_and_comes_back_within_its_grace(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    token_id, plaintext = api.token(database_id, table_id)
    ids = {"database_id": database_id, "token_id": token_id}
    before = api.ResurrectIngestToken(**ids).token
    gone = api.DeleteIngestToken(**ids).tombstone
    assert gone.delete_at_unix_ns - gone.tombstoned_at_unix_ns == 300 * SECOND
    assert api.DeleteIngestToken(**ids).tombstone == gone
    messages = []
    for bad in (plaintext, plaintext[:-1] + "!", "", "ing_", "ing_" + "0" * 16 + "_" + "a" * 43, "é" * 64):
        with refused(StatusCode.UNAUTHENTICATED) as seen:
            api.ValidateIngestToken(plaintext_token=bad)
        messages.append(seen[0].message)
    assert len(set(messages)) == 1
    with refused(StatusCode.UNAUTHENTICATED):
        api.stream(plaintext)
    assert api.ResurrectIngestToken(**ids).token == before
    assert api.ValidateIngestToken(plaintext_token=plaintext).token_id == token_id
    assert api.stream(plaintext)
    api.DeleteIngestToken(**ids)
    api.live.clock.forward(301)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectIngestToken(**ids)


@rule("TK-12")
def test_a_token_is_not_resurrected_without_its_tables(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    token_id, _ = api.token(database_id, table_id)
    ids = {"database_id": database_id, "token_id": token_id}
    api.DeleteIngestToken(**ids)
    api.DeleteTable(database_id=database_id, table_id=table_id)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectIngestToken(**ids)
    api.ResurrectTable(database_id=database_id, table_id=table_id)
    assert api.ResurrectIngestToken(**ids).token.id == token_id


@rule("TK-13", "GEN-07", "GEN-08", "GEN-10", "GEN-23")
def test_tokens_are_listed_and_found_in_their_own_database_only(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    (live, _), (dead, _) = api.token(database_id, table_id, called="b"), api.token(database_id, table_id, called="a")
    api.DeleteIngestToken(database_id=database_id, token_id=dead)
    assert [token.id for token in api.ListIngestTokens(database_id=database_id).tokens] == [live]
    everything = api.ListIngestTokens(database_id=database_id, include_deleted=True).tokens
    assert [token.id for token in everything] == [dead, live]
    with refused(StatusCode.NOT_FOUND):
        api.GetIngestToken(database_id=database_id, token_id=dead)
    assert api.GetIngestToken(database_id=database_id, token_id=dead, include_deleted=True).token == everything[0]
    other = api.database()
    assert not api.ListIngestTokens(database_id=other).tokens
    for call, more in (
        ("GetIngestToken", {}),
        ("DeleteIngestToken", {}),
        ("ResurrectIngestToken", {}),
        ("RotateIngestToken", {}),
        ("UpdateIngestTokenRouting", {"routing": routing(table_id, table_id, table_id)}),
    ):
        with refused(StatusCode.INVALID_ARGUMENT):
            getattr(api, call)(database_id=other, token_id=live, **more)
        with refused(StatusCode.NOT_FOUND):
            getattr(api, call)(database_id=database_id, token_id=NOBODY, **more)
        with refused(StatusCode.INVALID_ARGUMENT):
            getattr(api, call)(database_id=database_id, token_id="x", **more)


@rule("TK-14", "TK-15", "NU-15")
def test_routing_is_replaced_and_shown_at_once(api: Api) -> None:
    database_id, (one, two, three) = api.tables(3)
    token_id, plaintext = api.token(database_id, one)
    before = api.GetIngestStreamsForNursery().routing_seq
    answer = api.UpdateIngestTokenRouting(database_id=database_id, token_id=token_id, routing=routing(one, two, three))
    assert not answer.ListFields()
    listed = api.GetIngestStreamsForNursery()
    shown = next(token for token in listed.token_routing if token.token_id == token_id)
    assert (shown.traces_table_id, shown.logs_table_id, shown.metrics_table_id) == (one, two, three)
    assert (shown.database_id, shown.retired) == (database_id, False)
    assert listed.routing_seq > before
    assert api.ValidateIngestToken(plaintext_token=plaintext).routing.logs_table_id == two
    api.DeleteIngestToken(database_id=database_id, token_id=token_id)
    retired = [token for token in api.GetIngestStreamsForNursery().token_routing if token.token_id == token_id]
    assert [token.retired for token in retired] == [True]


def test_a_rotated_plaintext_works_until_its_overlap_ends(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    token_id, old = api.token(database_id, table_id)
    made = api.RotateIngestToken(database_id=database_id, token_id=token_id, overlap_seconds=60)
    new = made.plaintext_token
    assert made.token.id == token_id
    assert made.token.token_hint == new[-4:]
    for plaintext in (old, new):
        assert api.ValidateIngestToken(plaintext_token=plaintext).token_id == token_id
    api.live.clock.forward(61)
    with refused(StatusCode.UNAUTHENTICATED):
        api.ValidateIngestToken(plaintext_token=old)
    newest = api.RotateIngestToken(database_id=database_id, token_id=token_id).plaintext_token
    with refused(StatusCode.UNAUTHENTICATED):
        api.ValidateIngestToken(plaintext_token=new)
    assert api.ValidateIngestToken(plaintext_token=newest).token_id == token_id
    for bad in (-1, 1 << 62):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.RotateIngestToken(database_id=database_id, token_id=token_id, overlap_seconds=bad)


def test_an_expired_token_is_refused_and_a_bad_expiry_too(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    targets = routing(table_id, table_id, table_id)
    made = api.CreateIngestToken(database_id=database_id, name=name("tok"), expires_in_seconds=10, **targets)
    assert made.token.expires_at_unix_ns == pytest.approx(api.live.clock() + 10 * SECOND, abs=SECOND)
    assert api.ValidateIngestToken(plaintext_token=made.plaintext_token)
    api.live.clock.forward(11)
    with refused(StatusCode.UNAUTHENTICATED):
        api.ValidateIngestToken(plaintext_token=made.plaintext_token)
    with refused(StatusCode.UNAUTHENTICATED):
        api.stream(made.plaintext_token)
    for bad in (0, -5, 1 << 62):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.CreateIngestToken(database_id=database_id, name=name("tok"), expires_in_seconds=bad, **targets)
