"""Arrow's functions on columns: pyarrow.compute under another name, loaded when the first of them is used.

Loading it makes a Python function of each of its three hundred, which takes longer than to load Arrow itself. A row by
its key needs none of them.
"""

# Decisions: docs/decisions/0208

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Called for the first name alone: from then on this module has all of them, as pyarrow.compute has."""
    module = importlib.import_module("pyarrow.compute")
    own = globals()
    own.update({key: value for key, value in vars(module).items() if not key.startswith("__")})
    return getattr(module, name)
