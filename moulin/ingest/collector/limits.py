"""Limits for one request: decoded bytes, rows, columns, values, depth. Each is a setting of the lake.

A request is measured before anything is decoded that could grow far beyond its bytes, and rejected with the name of the
setting. Values are counted only in requests long enough to have too many.
"""

# Decisions: docs/decisions/0224

from __future__ import annotations

from dataclasses import dataclass

from moulin.config import MIB, Config
from moulin.errors import InvalidInput


class TooLarge(InvalidInput):
    """The request exceeds a limit of the collector."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """`decoded_bytes` is for rows once they are unpacked; `values` for the messages of OTLP, or the values of JSON."""

    decoded_bytes: int = 256 * MIB
    rows: int = 1_000_000
    columns: int = 2_000
    values: int = 4_000_000
    depth: int = 64

    @classmethod
    def of(cls, config: Config) -> RequestLimits:
        return cls(
            config.collector_decoded_bytes,
            config.collector_request_rows,
            config.collector_request_columns,
            config.collector_request_values,
            config.collector_request_depth,
        )

    def check_decoded(self, size: int) -> None:
        if size > self.decoded_bytes:
            raise TooLarge(
                f"The rows take {size:,} bytes or more once decoded, and a request may have {self.decoded_bytes:,} "
                "(collector_decoded_bytes): send smaller batches."
            )

    def check_rows(self, rows: int) -> None:
        if rows > self.rows:
            raise _too_many("rows or records", self.rows, "collector_request_rows")

    def check_columns(self, columns: int) -> None:
        if columns > self.columns:
            raise _too_many("columns, those of structs included", self.columns, "collector_request_columns")

    def check_values(self, values: int) -> None:
        if values > self.values:
            raise _too_many("values", self.values, "collector_request_values")

    def check_depth(self, depth: int) -> None:
        if depth > self.depth:
            raise InvalidInput(
                f"The body is nested more than {self.depth} levels deep (collector_request_depth): flatten it."
            )

    def check_cells(self, rows: int, columns: int) -> None:
        """REQUIRES: rows of JSON, whose every cell takes about eight bytes in memory, absent ones too."""
        self.check_decoded(8 * rows * columns)


def _too_many(what: str, limit: int, setting: str) -> TooLarge:
    return TooLarge(f"The request has more than {limit:,} {what} ({setting}): send smaller batches.")


__all__ = ["RequestLimits", "TooLarge"]
