"""The host names of a server.

A server on loopback trusts every caller, but web pages can reach it: by a host name that resolves to 127.0.0.1 (DNS
rebinding), or by posting a form. The first is visible in `Host`, the second in `Origin`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from moulin.errors import InvalidInput

_NAME: Final = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:.]+\]")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names that are taken. With `numbers`, every IP address is as well: no name server can point one elsewhere."""

    names: frozenset[str]
    numbers: bool

    def refusal(self, host: str | None, origin: str | None) -> tuple[int, str] | None:
        """Status and message for a request that is not taken."""
        if host is not None and not self._takes(host_of(host)):
            return (
                421,
                f"This server is not called {host[:100]!r}: use its own name, or list this one in allowed_hosts.",
            )
        if origin is not None and not self._takes(host_of(origin.partition("://")[2])):
            return (
                403,
                f"Pages of {origin[:100]!r} may not call this server: list its host in allowed_hosts if they may.",
            )
        return None

    def _takes(self, name: str) -> bool:
        if name in self.names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            number = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.numbers or number.is_loopback


def allowed_hosts(bound: str, listed: str) -> AllowedHosts | None:
    """Who a server on host `bound` answers to; None: to any name, since it was not told and others can reach it.

    `listed` are more names, with commas between them. `*` stands for all.
    """
    names = {name.strip().lower() for name in listed.split(",") if name.strip()}
    if "*" in names:
        return None
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} in allowed_hosts is not a host name: remove scheme, port and path.")
    local = is_loopback_host(bound)
    if not names and not local:
        return None
    return AllowedHosts(frozenset(name.strip("[]") for name in names), numbers=not local)


def is_loopback_host(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(authority: str) -> str:
    """The host of `host:port`, in lower case, without the brackets of IPv6."""
    text = authority.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")
