"""The result of a clean-up, which its steps fill in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from moulin.catalog.expiry import Expired, Garbage


@dataclass(slots=True)
class Collection:
    """The result of a clean-up, or with `dry_run` of a simulated one. `clock` is its time."""

    dry_run: bool
    clock: Callable[[], int] = field(repr=False, compare=False)
    purged: list[str] = field(default_factory=list)
    expired: list[Expired] = field(default_factory=list)
    trashed: list[Garbage] = field(default_factory=list)
    deleted: list[Garbage] = field(default_factory=list)
    waiting: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def bytes_deleted(self) -> int:
        return sum(garbage.size for garbage in self.deleted)
