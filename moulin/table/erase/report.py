"""The report of an erase: JSON that names every file, without the values that were erased, and a signature over it.

With a key the signature is HMAC-SHA256, which proves that the report was not changed. Without one it is a SHA-256
digest, which only detects damage.
"""

# Decisions: docs/decisions/0443

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from typing import Any

from moulin.errors import InvalidInput

KEY_VARIABLE = "MOULIN_ERASE_KEY"
FORMAT = 1
_SIGNATURE = "signature"
_HMAC, _DIGEST = "hmac-sha256", "sha-256"
_LEAST_KEY = 16


def key_of(key: str | bytes | None) -> bytes | None:
    """The key to sign with: as given, or as the environment has it; None for no key."""
    found = os.environ.get(KEY_VARIABLE) or None if key is None else key
    if found is None:
        return None
    data = found.encode() if isinstance(found, str) else bytes(found)
    if len(data) < _LEAST_KEY:
        raise InvalidInput(f"A key for signing reports must have at least {_LEAST_KEY} bytes, not {len(data)}.")
    return data


def sign(report: Mapping[str, Any], key: bytes | None) -> dict[str, Any]:
    """The report with its signature."""
    body = {name: value for name, value in report.items() if name != _SIGNATURE}
    signature = {"algorithm": _DIGEST if key is None else _HMAC, "value": _sign(body, key)}
    return {**body, _SIGNATURE: signature}


def verify(report: object, key: bytes | None) -> str:
    """What the signature of a report proves. InvalidInput when it does not fit the report, or the key is missing."""
    found = report.get(_SIGNATURE) if isinstance(report, dict) else None
    if not isinstance(report, dict) or not isinstance(found, dict) or not isinstance(found.get("value"), str):
        raise InvalidInput("This is not an erase report: it has no signature.")
    signed = found.get("algorithm") == _HMAC
    if signed and key is None:
        raise InvalidInput(f"The report is signed: pass the key, or set {KEY_VARIABLE}.")
    if not signed and found.get("algorithm") != _DIGEST:
        raise InvalidInput("The report has an unknown kind of signature: upgrade moulin.")
    if not signed and key is not None:
        raise InvalidInput("The report has only a digest, no signature: its origin cannot be verified.")
    body = {name: value for name, value in report.items() if name != _SIGNATURE}
    if not hmac.compare_digest(_sign(body, key if signed else None), str(found["value"])):
        raise InvalidInput("The signature does not match: the report was changed, or the key is wrong.")
    return "signed with this key" if signed else "undamaged; it has a digest and no signature"


def _sign(body: Mapping[str, Any], key: bytes | None) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hashlib.sha256(text).hexdigest() if key is None else hmac.new(key, text, hashlib.sha256).hexdigest()


__all__ = ["FORMAT", "KEY_VARIABLE", "key_of", "sign", "verify"]
