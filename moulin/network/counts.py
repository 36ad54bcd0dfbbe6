"""Counters of a server: fields of a dataclass, each with a description."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

_HELP = "help"


def counted(text: str) -> Any:
    """A field that counts from zero: `errors: int = counted("Calls that failed.")`."""
    return dataclasses.field(default=0, metadata={_HELP: text})


class Figure(NamedTuple):
    """One figure in Prometheus' terms. The name of a counter ends in _total."""

    name: str
    kind: str
    text: str
    value: float

    def lines(self) -> str:
        """As Prometheus reads it."""
        return f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n{self.name} {self.value}\n"


def counters(prefix: str, counts: Any) -> Iterator[Figure]:
    """The figures of a dataclass of counters."""
    for one in dataclasses.fields(counts):
        text = one.metadata.get(_HELP) or f"{one.name.replace('_', ' ').capitalize()}."
        yield Figure(f"{prefix}_{one.name}_total", "counter", text, getattr(counts, one.name))
