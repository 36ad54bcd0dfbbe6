"""The JSON that Iceberg's documents, requests and Avro records are made of."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
