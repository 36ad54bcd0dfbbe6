"""Names of databases, tables, views and columns: validation, parsing of two-part names, quoting in SQL.

Names are case-sensitive and are kept as given. The dots in the name of a database are between its levels: the database
`a.b` lies below the database `a`, if there is one. A name with a dot is written between backquotes: `a.b`.orders.
"""

# Decisions: docs/decisions/0630

from __future__ import annotations

import re
from collections.abc import Iterable

from moulin.errors import InvalidInput

MAX_LENGTH = 255
LEVEL = "."
_WITH_LEVELS = frozenset({"database", "table", "view"})
RESERVED_PREFIX = "_moulin"

# Columns that reads and the change feed add to a table's own.
RESERVED_COLUMNS = frozenset(
    {"_row_id", "_last_updated_version", "_last_updated_sequence_number", "_pos", "_change_type", "_version"}
)


def check_name(name: object, what: str) -> str:
    """`name` itself when it may name a database, table or view; `what` says which of them in the error."""
    text = _check_text(name, what)
    if text != text.strip():
        raise InvalidInput(f"{what.capitalize()} name {text!r} begins or ends with a space: remove it.")
    if "/" in text:
        raise InvalidInput(f"{what.capitalize()} name {text!r} contains '/': use letters, digits, '_' and '-'.")
    if any(not level or level != level.strip() for level in text.split(LEVEL)):
        raise InvalidInput(f"{what.capitalize()} name {text!r} has a dot next to nothing or a space.")
    if text.lower().startswith(RESERVED_PREFIX):
        raise InvalidInput(f"{what.capitalize()} name {text!r} begins with '{RESERVED_PREFIX}', which is reserved.")
    return text


def check_new_name(name: object, what: str) -> str:
    """As `check_name`, for what is made or renamed: an @ would be taken for the beginning of a branch."""
    text = check_name(name, what)
    if AT in text:
        raise InvalidInput(
            f"{what.capitalize()} name {text!r} contains {AT!r}, which is reserved for branches: use '_'."
        )
    return text


def check_column_name(name: object) -> str:
    """`name` itself when it may name a column or a field inside one."""
    text = _check_text(name, "column")
    if text.lower() in RESERVED_COLUMNS or text.lower().startswith(RESERVED_PREFIX):
        raise InvalidInput(f"Column name {text!r} is reserved: choose another.")
    return text


def parse_table_name(name: object, kind: str = "table") -> tuple[str, str]:
    """The two parts of "database.table"; views and ingest tokens are named in the same way.

    "shop.orders@exp", on the branch exp, is the table orders of the database shop@exp.
    """
    if not isinstance(name, str):
        raise InvalidInput(f'A {kind} must be given as text such as "database.{kind}", not by {type(name).__name__}.')
    parts = _parts(name)
    if len(parts) != 2:
        more = "; put a name with dots between backquotes" if len(parts) > 2 else ""
        raise InvalidInput(
            f'{kind.capitalize()} name {name!r} has {len(parts)} parts, not two: write "database.{kind}"{more}.'
        )
    database, table = parts
    stem, at, branch = table.rpartition(AT)
    if at:
        if AT in database or not stem:
            raise InvalidInput(f'{name!r} has {AT!r} in the wrong place: write "database.{kind}{AT}branch".')
        database, table = on_branch(database, check_branch_name(branch)), stem
    return check_name(database, "database"), check_name(table, kind)


def _parts(name: str) -> list[str]:
    """The parts of a name with dots between them; what is between backquotes is of one part, with its dots."""
    quoted = name.split("`")
    if len(quoted) % 2 == 0:
        raise InvalidInput(f"{name!r} has an unclosed backquote: put backquotes around a whole name.")
    for index in range(1, len(quoted), 2):
        if quoted[index - 1][-1:] not in ("", LEVEL) or quoted[index + 1][:1] not in ("", LEVEL, AT):
            raise InvalidInput(f"{name!r} has a backquote inside a name: put them around a whole name.")
    parts = [""]
    for index, text in enumerate(quoted):
        first, *more = [text] if index % 2 else text.split(LEVEL)
        parts[-1] += first
        parts += more
    return parts


def full_name(database: str, name: str) -> str:
    """The name that `parse_table_name` reads as these two parts."""
    return f"{_quoted_dots(database)}{LEVEL}{_quoted_dots(name)}"


def _quoted_dots(name: str) -> str:
    return f"`{name}`" if LEVEL in name else name


def parent_names(database: str) -> list[str]:
    """The names that databases above one of this name have, the nearest first; on a branch, on that branch."""
    stem, at, branch = database.partition(AT)
    levels = stem.split(LEVEL)
    return [LEVEL.join(levels[:count]) + at + branch for count in range(len(levels) - 1, 0, -1)]


MAIN = "main"
AT = "@"
"""What is between the name of a database and that of a branch: the database shop of the branch exp is shop@exp."""
_BRANCH_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


def is_branch_name(name: str) -> bool:
    """Whether a name may be that of a branch, or of main."""
    return _BRANCH_NAME.fullmatch(name) is not None and not name.lower().startswith(RESERVED_PREFIX)


def check_branch_name(name: object) -> str:
    """`name` itself when it may name a branch."""
    if not isinstance(name, str) or not is_branch_name(name):
        shown = repr(name) if len(str(name)) <= MAX_LENGTH else f"{str(name)[:40]!r}..."
        raise InvalidInput(f"{shown} cannot name a branch: use up to 100 letters, digits, '_' and '-'.")
    if name == MAIN:
        raise InvalidInput(f"{MAIN!r} is the name of the main lake: choose another name.")
    return name


def check_base_name(name: object) -> str:
    """`name` itself when it may name a base path."""
    if not isinstance(name, str) or not _BRANCH_NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} cannot name a base path: use up to 100 letters, digits, '_' and '-'.")
    return name


def on_branch(database: str, branch: str) -> str:
    """The name that a database has in the catalog when it belongs to a branch."""
    return f"{database}{AT}{branch}"


def quote(*parts: str) -> str:
    """The name as Spark SQL text, each part between backquotes: quote("shop", "orders") is `shop`.`orders`."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def matches_pattern(name: str, pattern: str | None) -> bool:
    """Whether a name fits a pattern as SHOW has them, whatever its case: `*` is any text, `|` is between alternatives.

    Other characters stand for themselves: a regular expression of a stranger could take hours.
    """
    if pattern is None:
        return True
    return any(_fits(name.lower(), one.strip().lower().split("*")) for one in pattern.split("|"))


def _fits(name: str, texts: list[str]) -> bool:
    """Whether the name is these texts, in this order, with anything between them."""
    first, *middle = texts
    if not middle:
        return name == first
    last, at = middle.pop(), len(first)
    if not name.startswith(first):
        return False
    for text in middle:
        found = name.find(text, at)
        if found < 0:
            return False
        at = found + len(text)
    return len(name) - at >= len(last) and name.endswith(last)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to append to an error: the nearest of `known`, after a space; empty when none is near."""
    from difflib import get_close_matches  # only errors need it

    by_folded = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""


def _check_text(name: object, what: str) -> str:
    if not isinstance(name, str):
        raise InvalidInput(f"A {what} name must be text, not {type(name).__name__}.")
    if not name.strip():
        raise InvalidInput(f"A {what} name must not be blank.")
    if len(name) > MAX_LENGTH:
        raise InvalidInput(
            f"{what.capitalize()} name {name[:40]!r}... has {len(name)} characters; at most {MAX_LENGTH} are allowed."
        )
    if not name.isprintable():
        raise InvalidInput(f"{what.capitalize()} name {name!r} contains a control or invisible character: remove it.")
    for character in "`" if what in _WITH_LEVELS else ".`":
        if character in name:
            raise InvalidInput(f"{what.capitalize()} name {name!r} contains {character!r}: use '_' instead.")
    return name


__all__ = [
    "MAX_LENGTH",
    "RESERVED_COLUMNS",
    "RESERVED_PREFIX",
    "check_branch_name",
    "check_column_name",
    "check_name",
    "check_new_name",
    "did_you_mean",
    "full_name",
    "matches_pattern",
    "parent_names",
    "parse_table_name",
    "quote",
]
