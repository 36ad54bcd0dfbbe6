"""`moulin completion`: shell completion scripts for commands, options, and names in the lake.

The shell calls `moulin` with an environment variable. Names of databases, tables, views and branches come from the lake
that --lake or MOULIN_LAKE names; if it cannot be opened, nothing is completed.
"""

# Decisions: docs/decisions/0671

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.errors import InvalidInput

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_MOULIN_COMPLETE"
"""What a shell sets when it asks."""


def register(root: typer.Typer) -> None:
    lines = ('eval "$(moulin completion bash)"', "moulin completion zsh", "moulin completion fish")
    root.command(epilog=examples(*lines))(completion)


def completion(
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), autocompletion=lambda: list(SHELLS))],
) -> None:
    """Print a shell completion script for commands, options, and names of databases and tables."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise InvalidInput(f"There is no completion for {shell!r}: choose {', '.join(SHELLS)}.")
    print(get_completion_script(prog_name="moulin", complete_var=VARIABLE, shell=shell))


def answer_shells() -> None:
    """Have the command line answer a shell that asks. typer knows the shells only where it adds options of its own."""
    from typer._completion_classes import completion_init

    completion_init()


__all__ = ["SHELLS", "VARIABLE", "answer_shells", "completion", "register"]
