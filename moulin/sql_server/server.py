"""`moulin sql-server`: Spark Connect over one lake, until it is stopped."""

# Decisions: docs/decisions/0265, docs/decisions/0296

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from pyspark.sql.connect.proto.base_pb2_grpc import add_SparkConnectServiceServicer_to_server

from moulin.lake import Lake
from moulin.meta.auth import Caller, Gate
from moulin.meta.config import ServeConfig, split_address
from moulin.meta.roles import Role
from moulin.meta.server.calls import Calls
from moulin.meta.server.server import bind, open_access
from moulin.network.limits import grpc_options
from moulin.network.slots import Slots
from moulin.pipeline.connect.session import ConnectSession
from moulin.pipeline.spark import LakeSpark
from moulin.sql_server.service import Service
from moulin.sql_server.sessions import Sessions

log = logging.getLogger("moulin.sql_server")
RUNNING: Final = 8
"""How many operations run at the same time. Others wait."""
SHARE: Final = 6
"""How many of them one token has."""
WAITING: Final = 64
"""How many operations of one token wait at most."""
_SERVICE = "/spark.connect.SparkConnectService/"
_CALLS = (
    *("ExecutePlan", "AnalyzePlan", "Config", "AddArtifacts", "ArtifactStatus", "Interrupt", "ReattachExecute"),
    *("ReleaseExecute", "ReleaseSession", "FetchErrorDetails"),
)
# Clients ask every minute whether the server is there; it would take this for an attack by default.
_PINGS = [("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.min_ping_interval_without_data_ms", 10_000)]


class SqlServer:
    """One server over one lake, bound to its port; `start` it, `stop` it. The lake stays open."""

    def __init__(self, lake: Lake, config: ServeConfig) -> None:
        """Starts Spark. Raises FailedPrecondition for a server that others can reach and that has no tokens."""
        self._config = config
        gate = Gate(open_access(lake, config), {f"{_SERVICE}{name}": Role.READ for name in _CALLS})
        largest = config.max_message_bytes
        spark = lake.context.spark()
        assert isinstance(spark, LakeSpark)
        session = spark.guard().session

        def make(caller: Caller) -> ConnectSession:
            return ConnectSession(
                lake,
                spark,
                changes=caller.role >= Role.WRITE,
                upkeep=caller.role >= Role.PIPELINE,
                largest_message=largest,
            )

        self._sessions = Sessions(make)
        self._calls = ThreadPoolExecutor(2 * config.threads, thread_name_prefix="moulin-sql-call")
        self._running = ThreadPoolExecutor(RUNNING, thread_name_prefix="moulin-sql")
        self._server = grpc.server(
            self._calls,
            interceptors=[Calls(gate)],
            maximum_concurrent_rpcs=config.max_calls,
            options=[
                ("grpc.max_receive_message_length", largest),
                ("grpc.max_send_message_length", largest),
                ("grpc.so_reuseport", 0),
                *grpc_options(config.limits),
                *_PINGS,
            ],
        )
        slots = Slots(self._running, share=SHARE, waiting=WAITING)
        service = Service(self._sessions, session, slots, largest)
        add_SparkConnectServiceServicer_to_server(service, self._server)  # type: ignore[no-untyped-call]
        self.port = bind(self._server, config)

    @property
    def address(self) -> str:
        """As a client on this machine may write it."""
        host, _ = split_address(self._config.bind)
        host = {"0.0.0.0": "localhost", "::": "localhost", "127.0.0.1": "localhost", "::1": "localhost"}.get(host, host)
        return f"sc://{f'[{host}]' if ':' in host else host}:{self.port}"

    def start(self) -> SqlServer:
        logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every connection to the JVM
        self._server.start()
        log.info("serving", extra={"address": self.address})
        return self

    def stop(self) -> bool:
        """Take no more calls, cancel what runs, and end; False when calls had to be cut off."""
        stopped = self._server.stop(self._config.drain_seconds)
        self._sessions.close_all()
        drained: bool = stopped.wait(self._config.drain_seconds)
        self._server.stop(None).wait()
        self._running.shutdown(wait=True)
        self._calls.shutdown(wait=True)
        log.info("stopped", extra={"drained": drained})
        return drained
