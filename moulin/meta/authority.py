"""Checks all tokens that a server accepts: access tokens, their tickets, and tokens of an external issuer."""

# Decisions: docs/decisions/0520, docs/decisions/0521

from __future__ import annotations

from typing import Final

from moulin.errors import Unauthenticated
from moulin.meta.auth import AccessFile, Caller
from moulin.meta.issuer import Issuer
from moulin.meta.tickets import PREFIX, Tickets

TICKET_SECONDS: Final = 3600


class Authority:
    """Says who has a token. The shape of a token says which of the three it is, and no other is asked."""

    def __init__(
        self, access: AccessFile | None, issuer: Issuer | None = None, ticket_seconds: int = TICKET_SECONDS
    ) -> None:
        self._access, self._issuer = access, issuer
        self.tickets = None if access is None else Tickets(access, ticket_seconds)

    @property
    def access(self) -> AccessFile | None:
        """The file of access tokens; None for a server that takes those of its issuer alone."""
        return self._access

    def may_wait(self, token: str) -> bool:
        """Whether `authenticate` may wait for the network: it is not called on a thread that others need."""
        return self._is_foreign(token) and self._issuer is not None and self._issuer.may_wait(token)

    def authenticate(self, token: str) -> Caller:
        if self._issuer is not None and self._is_foreign(token):
            return self._issuer.authenticate(token)
        if self.tickets is not None and token.startswith(PREFIX):
            return self.tickets.authenticate(token)
        if self._access is None:
            raise Unauthenticated("Unknown token: this server accepts tokens of its issuer.")
        return self._access.authenticate(token)

    @staticmethod
    def _is_foreign(token: str) -> bool:
        return token.count(".") >= 2  # neither access tokens nor tickets have two


__all__ = ["TICKET_SECONDS", "Authority"]
