"""Schemas and types of pyiceberg that a user passes in, without importing pyiceberg."""

from __future__ import annotations

import json
from typing import Any

from moulin.errors import InvalidInput
from moulin.model.schema.documents import schema_of, type_of


def own_value(given: Any) -> Any:
    """Our value for a schema or type of pyiceberg; anything else as it is. InvalidInput for one that we do not know."""
    names = {base.__name__ for base in type(given).__mro__ if base.__module__.partition(".")[0] == "pyiceberg"}
    if not names & {"Schema", "IcebergType"}:
        return given
    try:
        document = json.loads(json.dumps(given.model_dump(mode="python")))
        return schema_of(document) if "Schema" in names else type_of(document)
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidInput(f"The Iceberg value {str(given)[:200]!r} cannot be read ({str(error)[:200]}).") from None


__all__ = ["own_value"]
