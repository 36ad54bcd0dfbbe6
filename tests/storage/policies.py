"""What an IAM policy allows, evaluated as its documentation says: a referee for session policies."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r"\$\{([*?$])\}|\$\{[^}]*\}|(\*)|(\?)|(.)", re.DOTALL)


def allows(policy: str, action: str, bucket: str, key: str) -> bool:
    """Whether a policy allows an action on an object: some statement does, and none denies it."""
    found = {"Allow": False, "Deny": False}
    for statement in json.loads(policy)["Statement"]:
        arns = any(_pattern(one).fullmatch(f"arn:aws:s3:::{bucket}/{key}") for one in statement["Resource"])
        if arns and action in statement["Action"]:
            found[statement["Effect"]] = True
    return found["Allow"] and not found["Deny"]


def _pattern(resource: str) -> re.Pattern[str]:
    """`*` and `?` stand for letters, `${*}` for a star; any other variable is what the caller chooses."""

    def part(found: re.Match[str]) -> str:
        escaped, _, one, plain = found.groups()
        if escaped or plain:
            return re.escape(escaped or plain)
        return "." if one else ".*"

    return re.compile(_TOKEN.sub(part, resource), re.DOTALL)
