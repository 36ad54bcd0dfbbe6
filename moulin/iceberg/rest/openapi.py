"""The OpenAPI document of this catalog: Iceberg's document, reduced to the implemented endpoints, plus our own.

`openapi.json` is open-api/rest-catalog-open-api.yaml of Apache Iceberg (Apache License 2.0) at commit 7f879b11366e, as
JSON and without examples. What is changed here is what its text says and its schemas do not.
"""

# Decisions: docs/decisions/0524

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import moulin
from moulin.iceberg.format.json import Json

_FILE: Final = Path(__file__).with_suffix(".json")
_PREFIX: Final = "/v1/{prefix}"
_ALWAYS: Final = ("GET /v1/config", "POST /v1/oauth/tokens")
_ERRORS: Final = {
    "400": "The request can never succeed",
    "401": "No token, or one that is not known",
    "403": "The token may not do this",
    "404": "The namespace, table or view does not exist",
    "406": "This catalog does not do that",
    "409": "Something else was committed first, or has the name",
    "413": "The request is too large",
    "422": "An Idempotency-Key was sent with another request",
}
_BRANCH: Final = {
    "name": "prefix",
    "in": "path",
    "required": True,
    "description": "A branch of the lake, as /v1/config names it for the warehouse `lake@branch`",
    "schema": {"type": "string", "pattern": "^@[A-Za-z0-9_.-]+$"},
}
_PUBLISH: Final[Json] = {
    "summary": "Bring what a branch did to main as one version",
    "operationId": "publishBranch",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object", "properties": {"dry-run": {"type": "boolean"}}}},
        },
    },
    "responses": {
        "200": {
            "description": "What was published, or would be",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PublishResult"}}},
        }
    },
}
_PUBLISHED: Final[Json] = {
    "type": "object",
    "required": ["version", "dry-run", "tables"],
    "properties": {
        "version": {"type": ["integer", "null"], "format": "int64"},
        "dry-run": {"type": "boolean"},
        "tables": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "kind", "inserted", "updated", "deleted"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"type": "string"},
                    **{name: {"type": "integer", "format": "int64"} for name in ("inserted", "updated", "deleted")},
                },
            },
        },
    },
}


def render(endpoints: Iterable[str]) -> bytes:
    """The document for endpoints as /v1/config spells them: `GET /v1/{prefix}/namespaces`."""
    return _rendered(tuple(endpoints))


@lru_cache(4)
def _rendered(endpoints: tuple[str, ...]) -> bytes:
    whole = json.loads(_FILE.read_text(encoding="utf-8"))
    paths: dict[str, Json] = {}
    for method, path in (one.split(" ", 1) for one in (*_ALWAYS, *endpoints)):
        if (known := whole["paths"].get(path, {}).get(method.lower())) is not None:
            for where, parameters in _places(path, whole["paths"][path].get("parameters", [])):
                paths.setdefault(where, {"parameters": parameters})[method.lower()] = _operation(known, where)
    paths[f"{_PREFIX}/publish"] = {"parameters": [_BRANCH], "post": _operation(_PUBLISH, _PREFIX)}
    components = whole["components"]
    components["schemas"]["PublishResult"] = _PUBLISHED
    _correct(components)
    made = {
        "openapi": whole["openapi"],
        "info": {
            "title": "Moulin Iceberg REST",
            "version": moulin.__version__,
            "description": "Made of the specification of Apache Iceberg, licensed under the Apache License 2.0.",
            "license": whole["info"]["license"],
        },
        "servers": [{"url": "/iceberg"}],
        "security": whole["security"],
        "paths": paths,
    }
    made["components"] = _needed(made, components)
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode()


def _places(path: str, parameters: list[Json]) -> Iterator[tuple[str, list[Json]]]:
    """Where an endpoint is: on main without a prefix, and on a branch with the branch as prefix."""
    plain = [one for one in parameters if one.get("$ref") != "#/components/parameters/prefix"]
    yield path.replace(_PREFIX, "/v1", 1), plain
    if path.startswith(_PREFIX):
        yield path, [_BRANCH, *plain]


def _operation(known: Json, where: str) -> Json:
    """An operation with every error that it may answer with, and an id of its own."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/IcebergErrorResponse"}}}
    is_ours = not where.endswith("/oauth/tokens")  # which has errors of its own kind
    errors = {code: {"description": text, "content": error} for code, text in _ERRORS.items()}
    suffix = "OnBranch" if where.startswith(_PREFIX) and known is not _PUBLISH else ""
    # Some of Iceberg's name the inner part of an error alone.
    responses = {**known["responses"], **errors} if is_ours else {**errors, **known["responses"]}
    found = {**known, "operationId": known["operationId"] + suffix, "responses": responses}
    return found if is_ours else {**found, "security": []}


def _correct(components: Json) -> None:
    """What cannot hold as it is written.

    A number is an int and a long at once, so `oneOf` holds for none; and a header is not a parameter.
    """
    schemas = components["schemas"]
    for name, schema in schemas.items():
        if "oneOf" in schema and "discriminator" not in schema:
            schemas[name] = {"anyOf" if key == "oneOf" else key: value for key, value in schema.items()}
    for response in components["responses"].values():
        response.pop("headers", None)


def _needed(document: Json, components: Json) -> Json:
    """The components that are referred to, from wherever; the others are of endpoints that are not here."""
    found: dict[str, Json] = {"securitySchemes": components["securitySchemes"]}
    waiting = [document]
    while waiting:
        for kind, name in re.findall(r'"#/components/(\w+)/([\w.-]+)"', json.dumps(waiting.pop())):
            if name not in found.setdefault(kind, {}):
                found[kind][name] = part = components[kind][name]
                waiting.append(part)
    return found


__all__ = ["render"]
