"""The JSON type of Iceberg's documents, requests and Avro records."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
