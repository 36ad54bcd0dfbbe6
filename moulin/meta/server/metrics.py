"""Prometheus metrics of a server."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moulin.errors import MoulinError
from moulin.network.counts import Figure

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Figures(Collector):
    def __init__(self, look: Callable[[], Iterable[Figure]]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        for figure in self._look():
            kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
            yield kind(figure.name, figure.text, value=figure.value)


class Metrics:
    """The calls of one server, in a registry of its own; others may add theirs to `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter("moulin_calls", "Finished calls.", ["method", "code"], registry=self.registry)
        self._seconds = Histogram(
            "moulin_call_seconds", "Duration of calls.", ["method"], buckets=_SECONDS, registry=self.registry
        )
        self._running = Gauge("moulin_calls_running", "Running calls.", registry=self.registry)

    def started(self, method: str) -> None:
        self._running.inc()

    def ended(self, method: str, code: str, seconds: float) -> None:
        self._running.dec()
        self._calls.labels(method, code).inc()
        self._seconds.labels(method).observe(seconds)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A figure that is looked up when it is asked for; NaN when that fails, so that the others are still told."""

        def looked_up() -> float:
            try:
                return value()
            except MoulinError:
                return math.nan

        Gauge(name, text, registry=self.registry).set_function(looked_up)

    def figures(self, look: Callable[[], Iterable[Figure]]) -> None:
        """Metrics of other objects; read on request."""
        self.registry.register(_Figures(look))

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)
