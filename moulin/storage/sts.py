"""Short-lived credentials for a part of an S3 bucket, from a security token service: AssumeRole with a session policy.

The service is AWS's, or a compatible one such as MinIO's. Options of the storage name the role:

    sts_role_arn       the role to assume; without it no credentials are vended
    sts_endpoint       the service; by default that of `endpoint`, or AWS's in the region
    sts_seconds        lifetime of credentials, at least and by default 3600
    sts_external_id    the external id that the role requires, if any

The call is signed with the storage's own keys. Nothing of it is stored or logged.
"""

# Decisions: docs/decisions/0522

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Final
from urllib import error, request
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from moulin.errors import InvalidInput, Unavailable
from moulin.storage.http_client import open_address

OPTIONS: Final = frozenset({"sts_role_arn", "sts_endpoint", "sts_seconds", "sts_external_id"})
SHORTEST: Final = 3600
"""Half of it is longer than answers are repeated for an Idempotency-Key, so none of those is out of date."""
LONGEST: Final = 43_200
_LARGEST_POLICY: Final = 2048
_LARGEST_ANSWER: Final = 64 << 10
_TIMEOUT: Final = 10.0
_SPECIAL: Final = {"*": "${*}", "?": "${?}", "$": "${$}"}
_NAMESPACE: Final = "{https://sts.amazonaws.com/doc/2011-06-15/}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that are good until `expires`, Unix seconds."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires: float


@dataclass(frozen=True, slots=True)
class Grant:
    """What credentials are for: folders, by their paths below the storage's root, without a slash at the end.

    Nothing is written to what `kept` says: folders, each with a pattern of names below it.
    """

    readable: tuple[str, ...]
    writable: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()


class Sts:
    """Lends credentials for a storage in S3."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        parts = urlsplit(uri)
        self._bucket, self._prefix = parts.netloc, parts.path.strip("/")
        self._role, self._external = options["sts_role_arn"], options.get("sts_external_id", "")
        self._options = {key.removeprefix("aws_"): value for key, value in options.items()}
        self.region = self._options.get("region") or os.environ.get("AWS_REGION") or "us-east-1"
        self.endpoint = self._options.get("endpoint") or self._options.get("endpoint_url") or ""
        self._address = options.get("sts_endpoint") or self.endpoint or f"https://sts.{self.region}.amazonaws.com"
        self._seconds = _seconds(options.get("sts_seconds", str(SHORTEST)))

    def __repr__(self) -> str:
        return f"Sts({self._role!r})"

    def lend(self, grant: Grant, session: str) -> Credentials:
        """Credentials for what `grant` says and no more.

        Raises Unavailable when the service does not give them, without quoting what it was sent.
        """
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": self._role,
            "RoleSessionName": re.sub(r"[^\w=,.@-]", "-", f"moulin-{session}", flags=re.ASCII)[:64],
            "DurationSeconds": str(self._seconds),
            "Policy": self.policy(grant),
        }
        if self._external:
            form["ExternalId"] = self._external
        body = urlencode(form, quote_via=quote).encode()
        headers = signed(self._address, body, self.region, self._keys(), datetime.now(UTC))
        try:
            with open_address(request.Request(self._address, body, headers), _TIMEOUT) as answer:
                return _parsed(answer.read(_LARGEST_ANSWER))
        except error.HTTPError as refused:
            with refused:
                code = re.search(rb"<Code>([\w.]{1,60})</Code>", refused.read(_LARGEST_ANSWER))
            why = code[1].decode() if code else f"status {refused.code}"
        except (OSError, HTTPException, ElementTree.ParseError, ValueError, LookupError) as failed:
            why = type(failed).__name__
        raise Unavailable(f"{self._host()} gave no credentials for the role of sts_role_arn ({why}): check it, retry.")

    def policy(self, grant: Grant) -> str:
        """The session policy. Each folder ends with a slash, so `orders` gives nothing of `orders2`."""
        statements = [_statement("Allow", ["s3:GetObject"], [self._arn(one, "*") for one in grant.readable])]
        if grant.writable:
            actions = ["s3:PutObject", "s3:AbortMultipartUpload"]
            statements.append(_statement("Allow", actions, [self._arn(one, "*") for one in grant.writable]))
        if grant.kept:
            statements.append(_statement("Deny", ["s3:PutObject"], [self._arn(*one) for one in grant.kept]))
        text = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
        if len(text) > _LARGEST_POLICY:
            raise Unavailable(
                "The table's files are in more folders than credentials can cover: compact the table, or let engines "
                "use their own credentials."
            )
        return text

    def _arn(self, folder: str, pattern: str) -> str:
        """The objects below a folder. What means something in a policy is escaped in names."""
        below = f"{self._bucket}/{self._prefix}/" if self._prefix else f"{self._bucket}/"
        return f"arn:aws:s3:::{''.join(_SPECIAL.get(char, char) for char in below + folder)}/{pattern}"

    def _keys(self) -> tuple[str, str, str]:
        """The storage's own keys, of its options or of the environment as the storage reads it."""
        names = ("access_key_id", "secret_access_key", "session_token")
        found = [self._options.get(name) or os.environ.get(f"AWS_{name.upper()}", "") for name in names]
        if not found[0] or not found[1]:
            raise InvalidInput("Vending credentials needs access_key_id and secret_access_key in the storage options.")
        return found[0], found[1], found[2]

    def _host(self) -> str:
        return urlsplit(self._address).hostname or ""


def _statement(effect: str, actions: list[str], resources: list[str]) -> dict[str, object]:
    return {"Effect": effect, "Action": actions, "Resource": resources}


def signed(address: str, body: bytes, region: str, keys: tuple[str, str, str], at: datetime) -> dict[str, str]:
    """The headers of a POST, with a signature of version 4."""
    key_id, secret, token = keys
    stamp, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
    parts = urlsplit(address)
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8", "host": parts.netloc}
    headers["x-amz-date"] = stamp
    if token:
        headers["x-amz-security-token"] = token
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    asked = f"POST\n{parts.path or '/'}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{day}/{region}/sts/aws4_request"
    key = f"AWS4{secret}".encode()
    for part in (day, region, "sts", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _parsed(document: bytes) -> Credentials:
    """The credentials in an answer. Raises LookupError or ValueError when it has none."""
    found = ElementTree.fromstring(document).find(f".//{_NAMESPACE}Credentials")
    if found is None:
        raise LookupError
    texts = [found.findtext(f"{_NAMESPACE}{name}") for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    expires = datetime.fromisoformat(found.findtext(f"{_NAMESPACE}Expiration") or "").timestamp()
    if not all(texts) or expires <= time.time():
        raise LookupError
    return Credentials(str(texts[0]), str(texts[1]), str(texts[2]), expires)


def _seconds(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not SHORTEST <= int(text) <= LONGEST:
        raise InvalidInput(f"The storage option sts_seconds is a number from {SHORTEST} to {LONGEST}.")
    return int(text)


def sts_of(uri: str, options: Mapping[str, str]) -> Sts | None:
    """The credential vendor of a storage; None without a role, or if the storage is not in S3."""
    given = sorted(OPTIONS & options.keys())
    if not given:
        return None
    if not uri.startswith(("s3://", "s3a://")):
        raise InvalidInput(f"Only S3 supports the storage option {given[0]}.")
    if not options.get("sts_role_arn"):
        raise InvalidInput(f"The storage option {given[0]} has no effect without sts_role_arn.")
    return Sts(uri, options)


__all__ = ["Credentials", "Grant", "Sts", "signed", "sts_of"]
