"""Parses a `where` with sqlglot, and checks what is allowed."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import Token, TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from moulin.errors import InvalidInput
from moulin.model.nested_types import MOST, are_too_deep
from moulin.model.where.literal import check_unicode

MAX_DEPTH = 32

TOO_DEEP = f"The where is nested too deeply; at most {MAX_DEPTH} levels of parentheses go. Flatten it, or use lake.sql."


class WhereDialect(Dialect):
    """Standard SQL, with both kinds of quoted names and with bytes as x'00ff'."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012

    class Parser(parser.Parser):
        def _warn_unsupported(self) -> None:
            """Nothing: what sqlglot would only log is refused here."""


# What may stand beside the operands of a node; anything else in it changes its meaning.
_HARMLESS: dict[type[exp.Expression], tuple[str, ...]] = {exp.Div: ("typed", "safe")}


def parse_text(text: str) -> exp.Expression:
    check_unicode(text)
    if not text.strip():
        raise InvalidInput("The where is empty: omit it to select every row.")
    try:
        found = WhereDialect().tokenize(text)
        _check_depth(found)
        trees = WhereDialect().parser().parse_into(exp.Condition, found, text)
    except InvalidInput:
        raise
    except TokenError:
        raise InvalidInput(
            f"The where {cut(text)!r} cannot be parsed: a quote or comment is not closed, or x'..' is not hex."
        ) from None
    except ParseError as error:
        raise InvalidInput(_parse_message(text, error)) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        # The parser stumbles over some nonsense before it can say what is wrong with it.
        raise InvalidInput(f"The where {cut(text)!r} cannot be parsed as a condition.") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
        raise InvalidInput("The where must be one condition, but it has several statements or none.")
    return trees[0]


def _check_depth(found: list[Token]) -> None:
    """Refuses what would take the parser deep into recursion: it may be compiled, and then nothing guards the stack."""
    kinds = TokenType
    opening = (kinds.L_PAREN, kinds.L_BRACKET, kinds.L_BRACE, kinds.CASE)
    closing = (kinds.R_PAREN, kinds.R_BRACKET, kinds.R_BRACE, kinds.END)
    prefixes = (kinds.NOT, kinds.DASH, kinds.PLUS, kinds.TILDE, kinds.INTERVAL)
    depth = run = 0
    for token in found:
        depth += (token.token_type in opening) - (token.token_type in closing)
        run = run + 1 if token.token_type in prefixes else 0
        if depth + run > MAX_DEPTH:
            raise InvalidInput(TOO_DEEP)
    if are_too_deep(found, WhereDialect.Parser.TYPE_TOKENS):
        raise InvalidInput(f"The where has more than {MOST} types or calls of their names in one another: flatten it.")


def _parse_message(text: str, error: ParseError) -> str:
    if not error.errors:
        return f"The where {cut(text)!r} cannot be parsed as a condition."
    first = error.errors[0]
    wrong = str(first.get("description"))
    if not wrong.startswith("Expecting"):
        wrong = "something is missing after it" if wrong.startswith("Required") else "it does not belong there"
    at = f"line {first.get('line')}, column {first.get('col')}"
    near = cut(str(first.get("highlight")))
    return f"The where cannot be read at {at}, near {near!r}: {wrong[0].lower()}{wrong[1:]}."


def cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."


def path(node: exp.Expression) -> list[str]:
    names: list[str] = []
    while isinstance(node, exp.Dot):
        names.append(_identifier(node.expression))
        node = node.this
    if not isinstance(node, exp.Column):
        refuse(described(node))
    only(node, "this", "table", "db", "catalog")
    return [*(_identifier(part) for part in node.parts), *reversed(names)]


def _identifier(part: object) -> str:
    if not isinstance(part, exp.Identifier):
        refuse("`*`")
    return str(part.this)


def chain(node: exp.Expression) -> list[exp.Expression]:
    """The operands of `a and b and c`, which the parser nests to the left as deep as it is long."""
    kind, parts, stack = type(node), [], [node]
    while stack:
        part = stack.pop()
        if type(part) is kind:
            only(part, "this", "expression")
            stack += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def operand(node: exp.Expression) -> exp.Expression:
    only(node, "this")
    found: exp.Expression = node.this
    return found


def only(node: exp.Expression, *names: str) -> None:
    """Refuses a node that has more to it than these, such as `between symmetric`."""
    for name, value in node.args.items():
        if value and name not in names and name not in _HARMLESS.get(type(node), ()):
            refuse(f"`{name.replace('_', ' ')}` with {described(node)}")


def described(node: exp.Expression) -> str:
    if isinstance(node, exp.Query | exp.Exists) or node.find(exp.Query) is not None:
        return "sub-queries"
    if isinstance(node, exp.AggFunc):
        return f"the aggregate {node.sql_name().lower()}"
    if isinstance(node, exp.Anonymous):
        return f"the function {cut(node.name)}"
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector):
        return f"the function {node.sql_name().lower()}"
    return f"`{type(node).__name__.lower()}`"


def refuse(what: str) -> NoReturn:
    raise InvalidInput(f"A where cannot use {what}; use lake.sql for that.")
