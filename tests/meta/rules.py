"""Which rules of docs/meta-rules.md a test checks. `test_rules.py` lists those that no test names."""

from __future__ import annotations

from typing import Any

import pytest


def rule(*ids: str) -> Any:
    """Mark a test with the rules that it checks."""
    return pytest.mark.rule(*ids)
