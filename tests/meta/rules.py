"""Which rules of the meta service a test checks. `test_rules.py` lists those that no test names."""

from __future__ import annotations

from typing import Any

import pytest

# How many rules each section has.
SECTIONS = {"GEN": 26, "DB": 35, "TB": 39, "VW": 21, "CL": 16, "IG": 15, "TK": 19, "NU": 60}
SECTIONS |= {"MT": 18, "SD": 12, "SL": 18, "JN": 17, "SG": 5}


def rule(*ids: str) -> Any:
    """Mark a test with the rules that it checks."""
    return pytest.mark.rule(*ids)
