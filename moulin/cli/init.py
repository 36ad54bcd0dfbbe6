"""`moulin init`."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake
from moulin.cli.output import say


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin --lake ./other init", "moulin --lake ./telemetry init --otel"))(init)


def init(
    context: typer.Context,
    otel: Annotated[bool, typer.Option(help="Also create tables for telemetry, and a token to write to them.")] = False,
    as_json: Json = False,
) -> None:
    """Create a lake."""
    with open_lake(context, create=True) as lake:
        if not otel:
            sentence = f"The lake in {lake.store.uri} is ready, at version {lake.version}."
            say(sentence, as_json, storage=lake.store.uri, version=lake.version)
            return
        from moulin.ingest.setup import set_up

        made = set_up(lake)
        shown = made.token or "it was created before; `moulin token rotate` creates a new secret"
        say(
            f"The lake in {lake.store.uri} receives telemetry into {', '.join(made.tables)}.\n"
            f"Ingest token, shown only now:\n{shown}\n"
            "Run `moulin up` to collect. Senders set OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 (gRPC: 4317)\n"
            'and OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer <token>".',
            as_json,
            storage=lake.store.uri,
            version=lake.version,
            database=made.database,
            tables=list(made.tables),
            token=made.token,
        )
