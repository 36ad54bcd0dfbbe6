"""Cases of the compatibility kit that fail here, each with the promise that passing it would break."""

from __future__ import annotations

from typing import Final

EXCEPTIONS: Final[dict[str, dict[str, str]]] = {
    "tables": {
        "testLoadTableWithMissingMetadataFile(Path)": (
            "A lost metadata file is made again from the catalog when a table is loaded: engines read on where other "
            "catalogs fail."
        ),
    },
    "views": {},
}
