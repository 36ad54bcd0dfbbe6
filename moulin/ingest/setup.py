"""What `moulin init --otel` makes: a database with a table for each signal, and a token to write to them."""

from __future__ import annotations

from dataclasses import dataclass

from moulin.errors import AlreadyExists
from moulin.lake import Lake
from moulin.model.ingest import Routing
from moulin.model.otel import DATABASE, EVENT_TIME, PARTITION_BY, SCHEMAS, SEGMENT_BYTES, SHARD_BY, SIGNALS, SORT_BY
from moulin.model.table_settings import RETENTION, SHARDING, sharding_property

TOKEN = "default"
RETENTION_DAYS = 30
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True, slots=True)
class SetUp:
    """What there is now. `token` is the plaintext of a token just made, None when there was one before."""

    database: str
    tables: tuple[str, ...]
    token: str | None


def set_up(lake: Lake, *, retention_days: int = RETENTION_DAYS) -> SetUp:
    """Makes whatever is missing. May be repeated: what is there stays as it is."""
    lake.create_database(DATABASE, if_not_exists=True)
    tables = {
        signal: lake.create_table(
            f"{DATABASE}.{signal}",
            SCHEMAS[signal],
            partition_by=PARTITION_BY,
            sort_by=SORT_BY,
            event_time=EVENT_TIME,
            properties={
                RETENTION: str(retention_days * _DAY_NS),
                SHARDING: sharding_property(SHARD_BY[signal]),
                "moulin.merge-segment-bytes": SEGMENT_BYTES,
            },
            if_not_exists=True,
        )
        for signal in SIGNALS
    }
    ids = {signal: table.id for signal, table in tables.items()}
    routing = Routing(traces=ids["traces"], logs=ids["logs"], metrics=ids["metrics"])
    try:
        token = lake.catalog.ingest.create_token(DATABASE, TOKEN, routing).plaintext
    except AlreadyExists:
        token = None
    return SetUp(DATABASE, tuple(f"{DATABASE}.{signal}" for signal in SIGNALS), token)
