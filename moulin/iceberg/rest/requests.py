"""Parses requests for every endpoint: the lake, a JSON body of limited size, names, pages."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.errors import RestError, missing
from moulin.lake import Lake
from moulin.model.names import AT, LEVEL, MAIN

_SPELLED: dict[type, str] = {dict: "object", list: "array", str: "string", int: "number", bool: "boolean"}
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
MAX_BODY = 64 << 20
MAX_DEPTH = 128
"""Levels of a JSON body. A type of 32 levels, the deepest that a column may have, takes about 100."""
_TOO_DEEP = f"The request's body is nested deeper than {MAX_DEPTH} levels: flatten it."
SEPARATOR = "\x1f"
"""What stands between the parts of a nested namespace in a path."""


def _lake(request: Request) -> Lake:
    """The lake, or the branch that the path of a request begins with."""
    lake: Lake = request.app.state.lake
    branch = request.path_params.get("branch", MAIN)
    return lake if branch == MAIN else lake.open_branch(branch)


async def _json_body(request: Request) -> Json:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise RestError(413, "BadRequestException", f"A request has at most {MAX_BODY >> 20} MiB.")
    request.state.body = bytes(data)
    body = read_json(data)
    if not isinstance(body, dict):
        raise InvalidInput("The request's body is a JSON object.")
    return body


def read_json(data: bytes | bytearray) -> Any:
    """Parses JSON of a client; InvalidInput if it is invalid, nested too deeply, infinite, or not valid Unicode."""
    try:
        body = json.loads(data, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise InvalidInput(_TOO_DEEP) from None
    except ValueError as error:
        raise InvalidInput(f"The request's body is no JSON ({str(error)[:100]}).") from None
    if _is_deep(data, body):
        raise InvalidInput(_TOO_DEEP)
    if _SURROGATE.search(data) and _is_broken(body):
        raise InvalidInput("The request's body holds half of a character, such as \\ud800 alone: send valid Unicode.")
    return body


def _is_deep(data: bytes | bytearray, body: Any) -> bool:
    """Whether values are nested deeper than MAX_DEPTH; looked at level by level, before code that recurses."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    level = [body]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in inner for value in values]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _no_constant(text: str) -> None:
    """Rejects NaN and Infinity, which are not JSON."""
    raise ValueError(f"{text} is no JSON: send it as text")


def _finite(text: str) -> float:
    """A number; one like 1e999 would be infinite here."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is out of range: send it as text")
    return number


def _is_broken(body: Any) -> bool:
    """Whether a text in a body is not valid Unicode; JSON can spell what no file or catalog can hold."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


LakeOf = Annotated[Lake, Depends(_lake)]
Body = Annotated[Json, Depends(_json_body)]
PageToken = Annotated[str | None, Query(alias="pageToken", max_length=2048)]
PageSize = Annotated[int | None, Query(alias="pageSize", ge=1)]


def field(body: Json, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
    """A member of a body with the right type; InvalidInput if it is missing or has another type."""
    value = body.get(name)
    if value is None:
        if default is ...:
            raise InvalidInput(f"The request lacks {name!r}.")
        return default
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(_SPELLED[one] for one in kinds)
        raise InvalidInput(f"{name!r} is a JSON {wanted}.")
    return value


def texts(body: Json, name: str) -> dict[str, str]:
    """A member that maps text to text."""
    found = field(body, name, dict, {})
    if not all(isinstance(value, str) for value in found.values()):
        raise InvalidInput(f"The values of {name!r} are strings.")
    return dict(found)


def words(body: Json, name: str) -> list[str]:
    """A member that is a list of text."""
    found = field(body, name, list, [])
    if not all(isinstance(value, str) for value in found):
        raise InvalidInput(f"{name!r} is an array of strings.")
    return list(found)


def levels(namespace: str) -> list[str]:
    """The levels of a namespace in a path, as the client wrote them: one of them may have dots in it."""
    return namespace.split(SEPARATOR)


def database(namespace: str) -> str:
    """The database that a namespace in a path stands for: `a.b` for the levels a and b, and for the level a.b."""
    name = LEVEL.join(levels(namespace))
    if AT in name:  # a branch is named by the prefix of the path alone
        raise missing("Namespace", name)
    return name


def database_in_body(parts: Sequence[Any]) -> str:
    """The database that a namespace in a body stands for."""
    if not parts or not all(isinstance(part, str) for part in parts):
        raise InvalidInput("A namespace is a JSON array of the names of its levels.")
    name = LEVEL.join(parts)
    if AT in name:
        raise InvalidInput(
            f"Namespace {name!r} contains {AT!r}, which stands before a branch: connect with warehouse=lake@BRANCH."
        )
    return name


def page(names: Sequence[str], token: str | None, size: int | None) -> tuple[Sequence[str], str | None]:
    """The names of one page, in order, and the token of the next. Without a token (empty at first) all come at once."""
    if token is None:
        return names, None
    if token:
        try:
            after = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
        except ValueError:
            raise InvalidInput(
                "Unknown pageToken: pass back the next-page-token of the previous page unchanged."
            ) from None
        names = [name for name in names if name > after]
    size = size or 1000
    shown = names[:size]
    return shown, base64.urlsafe_b64encode(shown[-1].encode()).decode() if len(names) > size else None
