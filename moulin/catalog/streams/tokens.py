"""Ingest tokens: who may write, and to which tables the signals go. Plaintexts are shown once and never stored.

A plaintext is `ing_<selector>_<secret>`. The selector is public and finds the row; the SHA-256 of the whole is compared
with what is stored in constant time. The secret has 256 random bits, so a plain hash is enough. A token may have
several secrets: rotation adds one and lets the others run out.
"""

# Decisions: docs/decisions/0081

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases
from moulin.catalog.objects.names import NameOrId, by_key, live_tables, same
from moulin.catalog.objects.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, Unauthenticated
from moulin.model.ids import new_id
from moulin.model.ingest import NewToken, Routing, Token, TokenRouting
from moulin.model.names import check_name

_PLAINTEXT = re.compile(r"ing_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_NOBODY = hashlib.sha256(b"").digest()  # compared with when there is no such token, so that both take as long
_MAX_SECONDS = 100 * 365 * 86_400


def create(
    draft: Draft, database: NameOrId, name: str, routing: Routing, *, expires_in: float | None = None
) -> NewToken:
    """A token for the database, and the only sight of its plaintext. It ends after `expires_in` seconds, if given."""
    check_name(name, "token")
    parent = databases.find_parent(draft.connection, database)
    _check_targets(draft.connection, parent, routing)
    _require_free(draft.connection, parent, name)
    token_id = new_id()
    targets = _targets(routing)
    values = {"id": token_id, "database_id": parent.id, "name": name, "created_at": draft.now, **targets}
    draft.connection.execute(s.ingest_tokens.insert().values(values))
    plaintext = _add_secret(draft, token_id, expires_in)
    _changed(draft, token_id)
    return NewToken(_by_id(draft.connection, token_id), plaintext)


def rotate(
    draft: Draft, database: NameOrId, key: NameOrId, *, overlap_seconds: float = 0, expires_in: float | None = None
) -> NewToken:
    """A new plaintext for a token. Those before it still count for `overlap_seconds`."""
    row = find(draft.connection, database, key)
    k = s.token_secrets
    ends_at = draft.now + _nanos(overlap_seconds, "The overlap")
    older = sa.and_(k.c.token_id == row.id, sa.or_(k.c.expires_at.is_(None), k.c.expires_at > ends_at))
    draft.connection.execute(k.delete().where(k.c.token_id == row.id, k.c.expires_at <= draft.now))
    draft.connection.execute(k.update().where(older).values(expires_at=ends_at))
    plaintext = _add_secret(draft, row.id, expires_in)
    add_rows(draft, s.ingest_tokens, [row.id])
    return NewToken(_by_id(draft.connection, row.id), plaintext)


def find(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> Any:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    return by_key(connection, s.ingest_tokens, parent, key, "Ingest token", include_dropped=include_dropped)


def load(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> Token:
    return to_token(connection, find(connection, database, key, include_dropped=include_dropped))


def list_all(connection: sa.Connection, database: NameOrId, *, include_dropped: bool) -> list[Token]:
    t = s.ingest_tokens
    parent = databases.find(connection, database, include_dropped=include_dropped)
    query = sa.select(t).where(t.c.database_id == parent.id).order_by(t.c.name, t.c.id)
    if not include_dropped:
        query = query.where(t.c.tombstoned_at.is_(None))
    return [to_token(connection, row) for row in connection.execute(query).all()]


def validate(connection: sa.Connection, plaintext: str, now: int) -> Token:
    """The live token with this plaintext. Unauthenticated, with the same words whatever is wrong."""
    match = _PLAINTEXT.fullmatch(plaintext)
    k, t = s.token_secrets, s.ingest_tokens
    query = sa.select(k.c.hash, k.c.expires_at, k.c.token_id, t.c.tombstoned_at).join(t, t.c.id == k.c.token_id)
    found = connection.execute(query.where(k.c.selector == (match[1] if match else ""))).first()
    same_hash = hmac.compare_digest(_hash(plaintext), _NOBODY if found is None else bytes(found.hash))
    if found is None or not same_hash or found.tombstoned_at is not None or (found.expires_at or now + 1) <= now:
        raise Unauthenticated("The ingest token is not valid: check it, or create a new one.")
    return _by_id(connection, found.token_id)


def set_routing(draft: Draft, database: NameOrId, key: NameOrId, routing: Routing) -> Token:
    """Route everything that is not taken in yet, and all that comes, to other tables."""
    parent = databases.find(draft.connection, database)
    row = find(draft.connection, database, key)
    _check_targets(draft.connection, parent, routing)
    t = s.ingest_tokens
    if _routing(row) != routing:
        draft.connection.execute(t.update().where(t.c.id == row.id).values(_targets(routing)))
        _changed(draft, row.id)
    return _by_id(draft.connection, row.id)


def drop(draft: Draft, database: NameOrId, key: NameOrId, *, grace_seconds: float) -> Token:
    row = find(draft.connection, database, key, include_dropped=True)
    bury(draft, s.ingest_tokens, row, grace_seconds)
    return _by_id(draft.connection, row.id)


def resurrect(draft: Draft, database: NameOrId, key: NameOrId) -> Token:
    parent = databases.find_parent(draft.connection, database)
    found = find(draft.connection, database, key, include_dropped=True)
    t = s.ingest_tokens
    what = f"Ingest token {parent.name}.{found.name}"
    row = to_resurrect(draft.connection, t, same(t, parent, found, key), draft.clock, what)
    if row is not None:
        _require_free(draft.connection, parent, row.name)
        targets = {*_targets(_routing(row)).values()}
        alive = sa.select(sa.func.count()).where(s.tables.c.id.in_(targets), s.tables.c.tombstoned_at.is_(None))
        if draft.connection.execute(alive).scalar_one() < len(targets):
            raise FailedPrecondition(f"{what} routes to tables that are no longer there: resurrect them first.")
        lift(draft, t, [row.id])
    return _by_id(draft.connection, found.id if row is None else row.id)


def routing(connection: sa.Connection) -> tuple[TokenRouting, ...]:
    """Where the records of every token go; those of deleted ones as long as a stream may hold records of theirs."""
    t = s.ingest_tokens
    rows = connection.execute(sa.select(t).order_by(t.c.id))
    return tuple(
        TokenRouting(row.id, row.database_id, _routing(row), retired=row.tombstoned_at is not None) for row in rows
    )


def purgeable(now: int, recheck_seconds: float) -> sa.ColumnElement[bool]:
    """Tokens past their grace window of which no stream can still hold records that are not taken in.

    A collector may use a deleted token until it checks again, `recheck_seconds` later.
    """
    t, r = s.ingest_tokens, s.streams
    last_use = t.c.tombstoned_at + int(recheck_seconds * NANOS)
    behind = sa.exists().where(r.c.retired_at.is_(None), r.c.created_at <= last_use, r.c.frontier_time <= last_use)
    return sa.and_(t.c.delete_at <= now, ~behind)


def to_token(connection: sa.Connection, row: Any) -> Token:
    k = s.token_secrets
    newest = sa.select(k.c.hint, k.c.expires_at).where(k.c.token_id == row.id)
    secret = connection.execute(newest.order_by(k.c.created_at.desc(), k.c.selector).limit(1)).one()
    return Token(
        row.id,
        row.database_id,
        row.name,
        _routing(row),
        secret.hint,
        row.created_at,
        secret.expires_at,
        tombstone_of(row),
    )


def _add_secret(draft: Draft, token_id: UUID, expires_in: float | None) -> str:
    expires_at = None
    if expires_in is not None:
        expires_at = draft.now + _nanos(expires_in, "The time until a token ends")
        if expires_at == draft.now:
            raise InvalidInput("The lifetime of a token must be above zero, or not given.")
    selector = secrets.token_hex(8)
    plaintext = f"ing_{selector}_{secrets.token_urlsafe(32)}"
    values = {"token_id": token_id, "hash": _hash(plaintext), "hint": plaintext[-4:], "created_at": draft.now}
    draft.connection.execute(s.token_secrets.insert().values(selector=selector, expires_at=expires_at, **values))
    return plaintext


def _hash(plaintext: str) -> bytes:
    return hashlib.sha256(plaintext.encode(errors="surrogatepass")).digest()


def _nanos(seconds: float, what: str) -> int:
    if not 0 <= seconds <= _MAX_SECONDS:
        raise InvalidInput(f"{what} must be from 0 to {_MAX_SECONDS} seconds, not {seconds}.")
    return int(seconds * NANOS)


def _changed(draft: Draft, token_id: UUID) -> None:
    add_rows(draft, s.ingest_tokens, [token_id])
    draft.reroute()


def _by_id(connection: sa.Connection, token_id: UUID) -> Token:
    t = s.ingest_tokens
    return to_token(connection, connection.execute(sa.select(t).where(t.c.id == token_id)).one())


def _routing(row: Any) -> Routing:
    return Routing(row.traces_table_id, row.logs_table_id, row.metrics_table_id)


def _targets(routing: Routing) -> dict[str, UUID]:
    return {
        "traces_table_id": routing.traces,
        "logs_table_id": routing.logs,
        "metrics_table_id": routing.metrics,
    }


def _check_targets(connection: sa.Connection, parent: Any, routing: Routing) -> None:
    live_tables(connection, parent, list(_targets(routing).values()), "a token routes to tables of its own database")


def _require_free(connection: sa.Connection, parent: Any, name: str) -> None:
    t = s.ingest_tokens
    taken = sa.select(t.c.id).where(t.c.database_id == parent.id, t.c.name == name, t.c.tombstoned_at.is_(None))
    if connection.execute(taken).first() is not None:
        raise AlreadyExists(f"Ingest token {parent.name}.{name} already exists.")
