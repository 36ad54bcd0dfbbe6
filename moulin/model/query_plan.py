"""The plan of a query as engines report it: steps that read from others, and how much of each table is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: what it is, what it does in words of the engine, and the steps that it reads from."""

    name: str
    details: tuple[tuple[str, str], ...]
    inputs: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the segments of a table a statement reads."""

    name: str
    read: int
    total: int

    def __str__(self) -> str:
        return f"{self.name}: reads {self.read:,} of {self.total:,} segments"


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A whole plan: the last step first, and the share of each table as often as it is read."""

    steps: tuple[Step, ...]
    shares: tuple[Share, ...]
