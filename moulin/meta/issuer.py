"""Tokens of an external issuer, such as Keycloak, Entra or Okta: signed JSON Web Tokens whose claims give a role."""

# Decisions: docs/decisions/0521

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.util import to_bytes, urlsafe_b64decode

from moulin.errors import InvalidInput, PermissionDenied, Unauthenticated
from moulin.meta.auth import Caller, to_role
from moulin.meta.issuer_keys import IssuerKeys, require_safe
from moulin.meta.roles import Role
from moulin.printable import printable

ALGORITHMS: Final = ("RS256", "ES256")
SKEW_SECONDS: Final = 60
"""How far the issuer's clock and this one's may be apart."""
_LARGEST: Final = 16 << 10
_LONGEST_NAME: Final = 200
_PREFIX: Final = "oidc:"  # no access token has a colon in its name


class _Headers(jws.JWSRegistry):
    """Headers may name more than signatures need, such as the chain of a certificate."""

    max_header_length = 8 << 10


_HEADERS: Final = _Headers(algorithms=list(ALGORITHMS), strict_check_header=False)


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """Whose tokens are taken, for whom they must be made, and what role a value of a claim gives."""

    issuer: str
    audience: str
    claim: str
    roles: Mapping[str, Role]

    @classmethod
    def of(cls, issuer: str, audience: str, claim: str, roles: str) -> IssuerSettings:
        """From settings; InvalidInput when one is wrong. `roles` is written `lake-admins=admin, analysts=read`."""
        require_safe(issuer)
        if not audience or not claim:
            raise InvalidInput("Tokens of an issuer also need issuer_audience and issuer_role_claim.")
        pairs = [part.strip().rpartition("=") for part in roles.split(",") if part.strip()]
        if not pairs or not all(value.strip() for value, _, _ in pairs):
            raise InvalidInput(
                "issuer_roles must map each value of the claim to a role: 'lake-admins=admin, analysts=read'."
            )
        return cls(issuer, audience, claim, {value.strip(): to_role(role.strip()) for value, _, role in pairs})


class Issuer:
    """Reads the tokens of one issuer. Safe to use from several threads."""

    def __init__(
        self, settings: IssuerSettings, keys: IssuerKeys | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings, self._keys, self._clock = settings, keys or IssuerKeys(settings.issuer), clock

    def may_wait(self, token: str) -> bool:
        """Whether `authenticate` would ask the issuer for its keys."""
        header = _header(token)
        return header is not None and not self._keys.is_known(*header)

    def authenticate(self, token: str) -> Caller:
        """Who has this token.

        Raises Unauthenticated for one that is not of the issuer, PermissionDenied for one that gives no role, and
        Unavailable when the issuer's keys cannot be had.
        """
        header = _header(token)
        if header is None:
            raise _refused("it is no JSON Web Token that is signed with RS256 or ES256")
        key = self._keys.find(*header)
        try:
            signed = jws.deserialize_compact(token, key, registry=_HEADERS)
            claims = json.loads(signed.payload)
        except (JoseError, ValueError, TypeError, RecursionError):
            raise _refused("its signature is wrong") from None
        if not isinstance(claims, dict):
            raise _refused("it has no claims")
        self._check(claims)
        return Caller(_PREFIX + printable(str(claims.get("sub", "")))[:_LONGEST_NAME], self._role(claims))

    def _check(self, claims: Mapping[str, Any]) -> None:
        now = self._clock()
        if claims.get("iss") != self._settings.issuer:
            raise _refused("it is of another issuer")
        audience = claims.get("aud")
        if self._settings.audience not in (audience if isinstance(audience, list) else [audience]):
            raise _refused("it is made for another audience")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise _refused("it names nobody")
        if _time(claims, "exp", required=True) + SKEW_SECONDS <= now:
            raise _refused("it has expired")
        if max(_time(claims, "nbf"), _time(claims, "iat")) - SKEW_SECONDS > now:
            raise _refused("it is of a time that has not come")

    def _role(self, claims: Mapping[str, Any]) -> Role:
        """The highest role that a value of the claim gives."""
        given = [
            self._settings.roles[one] for one in _values(claims, self._settings.claim) if one in self._settings.roles
        ]
        if not given:
            raise PermissionDenied(
                f"The claim {self._settings.claim!r} of this token has no known role: issuer_roles of the server lists "
                "the values that do."
            )
        return max(given)


def _header(token: str) -> tuple[str | None, str] | None:
    """Key id and algorithm of a token, unchecked; None when it is no token that is taken."""
    if len(token) > _LARGEST or token.count(".") != 2:
        return None
    try:
        header = json.loads(urlsafe_b64decode(to_bytes(token.partition(".")[0])))
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.get("alg") not in ALGORITHMS or "crit" in header:
        return None
    kid = header.get("kid")
    return (kid, header["alg"]) if isinstance(kid, str | None) else None


def _time(claims: Mapping[str, Any], name: str, *, required: bool = False) -> float:
    value = claims.get(name)
    if value is None and not required:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # of a whole number that no float holds
            if math.isfinite(value):
                return float(value)
    raise _refused(f"its claim {name!r} is not a time")


def _values(claims: Mapping[str, Any], claim: str) -> Sequence[str]:
    """The texts of a claim: a list, or words. A dot leads into an object, unless a claim has the whole name."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, str):
        return found.split()
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"The token is rejected: {why}. Request a new one from its issuer.")


__all__ = ["ALGORITHMS", "SKEW_SECONDS", "Issuer", "IssuerSettings"]
