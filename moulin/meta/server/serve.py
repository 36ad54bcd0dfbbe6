"""`moulin serve`: gRPC, HTTP and background loops over one lake, until a signal says stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Protocol

from fastapi import FastAPI

from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer, build_app, hosts_of
from moulin.meta.server.metrics import Metrics
from moulin.meta.server.server import MetaServer, build_server, open_access
from moulin.meta.server.services import LOOPS

log = logging.getLogger("moulin.serve")


class Serving:
    """Everything that one process serves. `start` it, `stop` it; the lake stays open."""

    def __init__(
        self,
        lake: Lake,
        config: ServeConfig,
        *,
        storage_options: Mapping[str, str] | None = None,
        mount: Callable[[FastAPI], None] = lambda app: None,
    ) -> None:
        self.metrics = Metrics()
        _add_gauges(self.metrics, lake)
        self.grpc: MetaServer = build_server(lake, config, observer=self.metrics, storage_options=storage_options)
        self.http: HttpServer | None = None
        if config.http_bind:
            app = build_app(lake, access=open_access(lake, config), metrics=self.metrics, hosts=hosts_of(config))
            mount(app)
            try:
                self.http = HttpServer(app, config)
            except BaseException:
                self.grpc.stop(0)
                raise
            self.metrics.figures(self.http.connections.figures)
        self._loops = [loop(self.grpc.site) for loop in LOOPS]

    def start(self) -> Serving:
        self.grpc.start()
        if self.http is not None:
            self.http.start()
        for loop in self._loops:
            loop.start()
        http = "" if self.http is None else f":{self.http.port}"
        log.info("serving", extra={"grpc": self.grpc.address, "http": http, "boot_id": str(self.grpc.site.boot_id)})
        return self

    def stop(self) -> bool:
        """Drain calls, end loops; False when calls had to be cut off."""
        log.info("stopping", extra={"drain_seconds": self.grpc.site.serve.drain_seconds})
        if self.http is not None:
            self.http.end_streams()
        drained = self.grpc.stop()
        if self.http is not None:
            self.http.stop()
        for loop in self._loops:
            loop.stop()
        log.info("stopped", extra={"drained": drained})
        return drained


def _add_gauges(metrics: Metrics, lake: Lake) -> None:
    """What an operator wants to be told of: above all, what is stuck."""
    tasks = lake.own_catalog().maintenance
    for name, text, value in (
        ("lake_version", "The newest version of the lake.", lambda: lake.version),
        ("merge_tasks", "Merge tasks that are not done.", lambda: tasks.task_counts()[0]),
        ("merge_tasks_quarantined", "Merge tasks that failed too often.", lambda: tasks.task_counts()[1]),
        ("objects_to_delete", "Objects that wait for deletion.", lambda: tasks.trash_counts()[0]),
        ("objects_failing", "Objects whose deletion failed, and is tried again.", lambda: tasks.trash_counts()[1]),
    ):
        metrics.gauge(f"moulin_{name}", text, value)


class Stoppable(Protocol):
    def start(self) -> object: ...
    def stop(self) -> bool: ...


def run_until_signal(serving: Stoppable, ready: Callable[[], None] = lambda: None) -> bool:
    """Serve until SIGTERM or SIGINT; False when calls had to be cut off. A second signal ends the process at once."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        serving.start()
        ready()
        stop.wait()
        return serving.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
