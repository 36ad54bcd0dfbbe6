"""Examples in the help of a command."""

from __future__ import annotations

from rich.markup import escape

_HEAD = "Examples:"


def examples(*lines: str) -> str:
    """The end of a command's help: example shell lines, where MOULIN_LAKE names the lake."""
    return "\n\n".join([f"[bold]{_HEAD}[/bold]", *map(escape, lines)])


def examples_in(epilog: str | None) -> list[str]:
    """The lines that `examples` was given."""
    head, *lines = (epilog or "").split("\n\n")
    return [line.replace("\\[", "[") for line in lines] if _HEAD in head else []


__all__ = ["examples", "examples_in"]
