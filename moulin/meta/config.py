"""Settings of a server: the table `[serve]` of moulin.toml, then `MOULIN_SERVE_<NAME>`, then the command line.

An unknown name is an error in all three. META_BIND is another name for MOULIN_SERVE_BIND. Variables that Kubernetes
sets for a service named `moulin` (`moulin.config.is_service_link`) are ignored.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moulin.config import MIB, Config, is_service_link, read_toml
from moulin.errors import InvalidInput
from moulin.network.hosts import allowed_hosts, is_loopback_host
from moulin.network.limits import Limits
from moulin.network.logs import FORMS, LEVELS

SECTION = "serve"
_PREFIX = "MOULIN_SERVE_"
_OTHERS = {
    "MOULIN_LAKE",
    "MOULIN_STORAGE",
    "MOULIN_STORAGE_OPTIONS",
    "MOULIN_DEBUG",
    "MOULIN_TOKEN",
    "MOULIN_CA_CERTIFICATE",
}
_OTHERS |= {"MOULIN_SPARK_MEMORY", "MOULIN_CACHE"}  # that the command line and Spark's launcher read


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The effective configuration of one server. Times are seconds, sizes are bytes."""

    # Where gRPC and HTTP listen: host:port, port 0 for any; an empty `http_bind` means no HTTP.
    bind: str = "127.0.0.1:9560"
    http_bind: str = "127.0.0.1:8181"
    # Calls that run at the same time; calls that may wait or run, more are refused.
    threads: int = 32
    max_calls: int = 1024
    # The largest message taken or sent.
    max_message_bytes: int = 64 * MIB
    # How long a stopping server waits for the calls that run.
    drain_seconds: float = 30.0
    # Over HTTP: time for the head of a request and for its body, connections in all and of one peer, and names that
    # callers may use besides those of this machine (with commas; `*` for any). gRPC has the limit in all as well.
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    max_connections: int = 1000
    max_peer_connections: int = 250
    allowed_hosts: str = ""
    # PEM files. Without a certificate, connections are not encrypted.
    tls_certificate: str = ""
    tls_key: str = ""
    # `auto`: callers need a token unless the server is reached from this machine only. `on`, `off`.
    auth: str = "auto"
    # The file that holds the hashes of access tokens; see `moulin access`. Empty: access.toml in the lake's folder.
    access_file: str = ""
    # How long a token of /iceberg/v1/oauth/tokens lives.
    ticket_seconds: int = 3600
    # An OpenID Connect issuer whose tokens are taken, the audience that they are made for, the claim that holds roles,
    # and what each of its values may: 'lake-admins=admin, analysts=read'. Empty: only access tokens.
    issuer: str = ""
    issuer_audience: str = ""
    issuer_role_claim: str = "roles"
    issuer_roles: str = ""
    # Whether clients that may write are told the storage options that the server was given, secrets and all.
    share_storage_options: str = "off"
    # Which engines run SQL for the console: `auto` is DuckDB where it is installed, `on` Spark as well; `off`. What a
    # statement may take: seconds, rows and bytes of its result; how many run at a time; DuckDB's memory.
    sql: str = "auto"
    sql_seconds: float = 60.0
    sql_rows: int = 10_000
    sql_running: int = 2
    sql_result_bytes: int = 64 * MIB
    sql_memory_bytes: int = 1024 * MIB
    # `json` or `text`; debug, info, warning or error.
    log_format: str = "json"
    log_level: str = "info"

    def __post_init__(self) -> None:
        _one_of("auth", self.auth, "auto", "on", "off")
        _one_of("sql", self.sql, "auto", "on", "off")
        _one_of("share_storage_options", self.share_storage_options, "on", "off")
        _one_of("log_format", self.log_format, *FORMS)
        _one_of("log_level", self.log_level, *LEVELS)
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise InvalidInput("TLS needs both tls_certificate and tls_key.")
        for name in ("bind", "http_bind"):
            if value := getattr(self, name):
                split_address(value)
        allowed_hosts("", self.allowed_hosts)

    @property
    def limits(self) -> Limits:
        return Limits(self.header_seconds, self.body_seconds, self.max_connections, self.max_peer_connections)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host is in brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(f"{address!r} is not a listen address: write host:port, such as 127.0.0.1:9560.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine only."""
    return is_loopback_host(split_address(address)[0])


def load_serve_config(
    file: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> ServeConfig:
    """Defaults, then `[serve]` of a moulin.toml, then the environment, then `overrides` that are not None."""
    environ = os.environ if environ is None else environ
    settings: dict[str, Any] = {}
    if file is not None:
        section = read_toml(file).get(SECTION, {})
        if not isinstance(section, dict):
            raise InvalidInput(f"[{SECTION}] in {file.name} must be a table.")
        settings.update(section)
    if bind := environ.get("META_BIND"):
        settings["bind"] = bind
    given = {name: raw for name, raw in environ.items() if name.startswith(_PREFIX) and not is_service_link(name, raw)}
    settings.update({name.removeprefix(_PREFIX).lower(): raw for name, raw in given.items()})
    settings.update({name: value for name, value in overrides.items() if value is not None})
    known = {f.name: f for f in dataclasses.fields(ServeConfig)}
    for name in settings:
        if name not in known:
            raise InvalidInput(f"Unknown setting {name!r} of [{SECTION}]; known settings: {', '.join(sorted(known))}.")
    return ServeConfig(**{name: _value(name, known[name].default, raw) for name, raw in settings.items()})


def require_known_environment(environ: Mapping[str, str] | None = None) -> None:
    """Refuse variables MOULIN_... that mean nothing: a mistyped one would be ignored in silence."""
    environ = os.environ if environ is None else environ
    known = _OTHERS | {f"MOULIN_{f.name.upper()}" for f in dataclasses.fields(Config)}
    for name in sorted(environ):
        if not name.startswith("MOULIN_") or name.startswith(_PREFIX) or name in known:
            continue
        if not is_service_link(name, environ[name]):
            raise InvalidInput(f"Unknown environment variable {name}: correct its name or unset it.")


def _value(name: str, default: Any, raw: Any) -> Any:
    if isinstance(default, str):
        if isinstance(raw, bool):  # `auth = true` is what one would write
            return "on" if raw else "off"
        if not isinstance(raw, str | Path):
            raise InvalidInput(f"Setting {name!r} must be text, not {raw!r}.")
        return str(raw)
    kind = type(default)
    try:
        if isinstance(raw, bool) or (isinstance(raw, float) and kind is int and int(raw) != raw):
            raise ValueError
        value = kind(raw)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"Setting {name!r} must be a number, not {raw!r}.") from None
    if not value >= (1 if kind is int else 0) or value == float("inf"):
        raise InvalidInput(f"Setting {name!r} must be {'at least 1' if kind is int else 'zero or more'}, not {raw!r}.")
    return value


def _one_of(name: str, value: str, *allowed: str) -> None:
    if value not in allowed:
        raise InvalidInput(f"Setting {name!r} must be one of {', '.join(allowed)}, not {value!r}.")
