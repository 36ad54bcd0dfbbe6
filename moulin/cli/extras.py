"""Requirements of commands beyond the package itself: extras and Java. They are checked before a command runs."""

# Decisions: docs/decisions/0244, docs/decisions/0673

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from moulin.errors import FailedPrecondition

# The packages of each extra in pyproject.toml, as they are imported.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "serve": (
            "fastapi",
            "grpc",
            "grpc_health",
            "grpc_reflection",
            "joserfc",
            "opentelemetry.proto",
            "prometheus_client",
            "starlette",
            "uvicorn",
        ),
        "duckdb": ("duckdb",),
        "mcp": ("mcp",),
        "shell": ("prompt_toolkit",),
        "spark": ("opentelemetry.proto", "pandas", "pyspark"),
        "connect": ("google.rpc", "grpc", "grpc_status", "pandas", "pyspark", "zstandard"),
    }
)


class Need(NamedTuple):
    """An extra that a command needs; with `only_with` or `but_not_with`, depending on one of its options.

    With a `value`, only if the option has that value.
    """

    extra: str
    only_with: str = ""
    but_not_with: str = ""
    value: str = ""

    def applies(self, options: Mapping[str, Any]) -> bool:
        if self.value:
            return bool(options.get(self.only_with) == self.value)
        if self.only_with:
            return bool(options.get(self.only_with))
        return not (self.but_not_with and options.get(self.but_not_with))


def require(what: str, needs: Iterable[Need]) -> None:
    """Raise FailedPrecondition with the missing packages and the command that installs them. Imports nothing."""
    wanted, missing, extras = list(needs), list[str](), list[str]()
    for need in wanted:
        lacking = [name for name in EXTRAS[need.extra] if name not in missing and not _is_there(name)]
        missing += lacking
        extras += [need.extra] if lacking else []
    without = "".join(f", or add --{need.but_not_with.replace('_', '-')}" for need in wanted if need.but_not_with)
    if missing:
        verb = "which is" if len(missing) == 1 else "which are"
        advice = f"pip install 'moulin[{','.join(extras)}]'{without if extras == ['spark'] else ''}"
        raise FailedPrecondition(f"{what} needs {', '.join(missing)}, {verb} not installed: {advice}.")
    if any(need.extra == "spark" for need in wanted):
        _require_java(without)


def _require_java(without: str) -> None:
    from moulin.pipeline.java import find_java

    try:
        find_java()
    except FailedPrecondition as error:
        raise FailedPrecondition(f"{error.message.removesuffix('.')}{without}.") from None


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


__all__ = ["EXTRAS", "Need", "require"]
