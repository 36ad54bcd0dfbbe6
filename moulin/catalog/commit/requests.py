"""Request ids: make repeated changes idempotent for a time.

Moulin's own ids are repeated within minutes, and deleted after `request_keep`. A structured stream may be restarted
after any time, and then repeats only its last batch, so the newest id of each query is kept. User-given ids are kept
forever.
"""

from __future__ import annotations

import sqlalchemy as sa

from moulin.catalog.commit.table_commit import CommitResult
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.pool import Pool, chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.model import request_ids

_PASSING = (request_ids.CALL, request_ids.NURSERY, request_ids.FLUSH, request_ids.ICEBERG)


_BY_ID = Prepared(sa.select(s.requests).where(s.requests.c.id == sa.bindparam("request_id")))


def find(connection: sa.Connection, request_id: str) -> CommitResult | None:
    """What an earlier commit with this id did, if there was one."""
    row = _BY_ID.first(connection, {"request_id": request_id})
    return None if row is None else CommitResult(row.version, row.created_at, replayed=True, digest=row.digest)


def forget(pool: Pool, keep_seconds: float) -> int:
    """Delete ids older than `keep_seconds` that are not repeated any more; returns how many."""
    r = s.requests
    with pool.unordered(durable=False) as connection:
        old = r.c.created_at < pool.now(connection) - int(keep_seconds * NANOS)
        passing = sa.or_(*(r.c.id.startswith(prefix, autoescape=True) for prefix in _PASSING))
        gone = connection.execute(r.delete().where(old, passing)).rowcount
        of_streams = sa.select(r.c.id, r.c.version).where(old, r.c.id.startswith(request_ids.STREAM))
        newest: dict[str, str] = {}
        passed = []
        for row in connection.execute(of_streams.order_by(r.c.version)):
            query = row.id.rpartition(":")[0]
            if query in newest:
                passed.append(newest[query])
            newest[query] = row.id
        for chunk in chunks(passed):
            gone += connection.execute(r.delete().where(r.c.id.in_(chunk))).rowcount
        return int(gone)
