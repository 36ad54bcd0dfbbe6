"""Tokens of an external issuer: what is taken, what is refused, and what happens when the issuer is down."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from moulin.errors import InvalidInput, PermissionDenied, Unauthenticated, Unavailable
from moulin.meta import issuer_keys
from moulin.meta.issuer import SKEW_SECONDS, Issuer, IssuerSettings
from moulin.meta.issuer_keys import FRESH_SECONDS, PAUSE_SECONDS, STALE_SECONDS, IssuerKeys, fetch_json
from moulin.meta.roles import Role
from tests.meta.identity_provider import IdentityProvider, identity_provider, rsa

ROLES = "admins=admin, writers=write, readers=read"
DISCOVERY = "/.well-known/openid-configuration"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def settings(provider: IdentityProvider, claim: str = "roles") -> IssuerSettings:
    return IssuerSettings.of(provider.issuer, "moulin", claim, ROLES)


@pytest.fixture
def issuer(provider: IdentityProvider, clock: Clock) -> Issuer:
    return Issuer(settings(provider), IssuerKeys(provider.issuer, clock=clock))


def test_a_token_of_the_issuer_gives_the_highest_role_of_its_claim(provider: IdentityProvider, issuer: Issuer) -> None:
    assert issuer.authenticate(provider.token()).role is Role.READ
    found = issuer.authenticate(provider.token(roles=["others", "readers", "writers"]))
    assert (found.name, found.role) == ("oidc:ann", Role.WRITE)
    assert issuer.authenticate(provider.token(roles="openid writers")).role is Role.WRITE, "words of one text"
    assert issuer.authenticate(provider.token(aud=["else", "moulin"])).role is Role.READ
    provider.keys.append(ECKey.generate_key("P-256", {"kid": "curve"}))
    assert len(provider.asked) == 2, "keys are fetched once"


def test_a_claim_may_lie_inside_another(provider: IdentityProvider) -> None:
    nested = Issuer(settings(provider, "realm_access.roles"))
    assert nested.authenticate(provider.token(realm_access={"roles": ["admins"]})).role is Role.ADMIN
    named = Issuer(settings(provider, "https://idp.example/roles"))
    assert named.authenticate(provider.token(**{"https://idp.example/roles": ["writers"]})).role is Role.WRITE


@pytest.mark.parametrize("roles", [[], None, ["strangers"], "", 7, {"readers": True}, [["readers"]]])
def test_a_token_without_a_role_may_nothing(provider: IdentityProvider, issuer: Issuer, roles: Any) -> None:
    with pytest.raises(PermissionDenied, match="has no known role"):
        issuer.authenticate(provider.token(roles=roles))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "others"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": ["a", "b"]}, "another audience"),
        ({"aud": "moulin2"}, "another audience"),
        ({"exp": None}, "is not a time"),
        ({"exp": "soon"}, "is not a time"),
        ({"exp": True}, "is not a time"),
        ({"exp": float("inf")}, "is not a time"),
        ({"exp": 10**400}, "is not a time"),
        ({"exp": 1}, "expired"),
        ({"nbf": time.time() + 3600}, "has not come"),
        ({"iat": time.time() + 3600}, "has not come"),
        ({"sub": None}, "names nobody"),
        ({"sub": 7}, "names nobody"),
    ],
)
def test_a_wrong_claim_is_refused(provider: IdentityProvider, issuer: Issuer, changed: Any, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        issuer.authenticate(provider.token(**changed))


def test_clocks_may_differ_by_a_minute(provider: IdentityProvider, issuer: Issuer) -> None:
    now = int(time.time())
    assert issuer.authenticate(provider.token(exp=now - SKEW_SECONDS + 20)).role is Role.READ
    assert issuer.authenticate(provider.token(nbf=now + SKEW_SECONDS - 20)).role is Role.READ
    with pytest.raises(Unauthenticated, match="expired"):
        issuer.authenticate(provider.token(exp=now - SKEW_SECONDS - 1))


def encoded(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(provider: IdentityProvider) -> dict[str, str]:
    """Tokens that nobody signed, or that somebody else did."""
    claims = encoded(provider.claims(roles=["admins"]))
    public = provider.keys[0].as_pem(private=False)
    der = provider.keys[0].as_der(private=False)
    made = {
        "none": f"{encoded({'alg': 'none', 'kid': 'first'})}.{claims}.",
        "None": f"{encoded({'alg': 'None', 'kid': 'first'})}.{claims}.",
        "no algorithm": f"{encoded({'kid': 'first'})}.{claims}.",
        "no signature": f"{encoded({'alg': 'RS256', 'kid': 'first'})}.{claims}.",
        "critical": f"{encoded({'alg': 'RS256', 'kid': 'first', 'crit': ['b64'], 'b64': False})}.{claims}.AA",
        "other key": provider.token(rsa({"kid": "first"}), roles=["admins"]),
        "other curve": provider.token(ECKey.generate_key("P-256", {"kid": "first"}), roles=["admins"]),
        "key inside": provider.token(
            (own := rsa({"kid": "first"})), {"jwk": own.as_dict(private=False)}, roles=["admins"]
        ),
        "swapped": ".".join([provider.token().split(".")[0], claims, provider.token().split(".")[2]]),
        "five parts": "a.b.c.d.e",
        "empty": "..",
        "large": provider.token(roles=["x" * 20_000]),
        "number of a key": f"{encoded({'alg': 'RS256', 'kid': 7})}.{claims}.AA",
    }
    for name, secret in (("hmac of pem", public), ("hmac of der", der)):
        head = encoded({"alg": "HS256", "kid": "first", "typ": "JWT"})
        signature = hmac.digest(secret, f"{head}.{claims}".encode(), hashlib.sha256)
        made[name] = f"{head}.{claims}.{encoded(signature)}"
    return made


def test_forged_tokens_are_refused(provider: IdentityProvider, issuer: Issuer) -> None:
    for name, token in forged(provider).items():
        with pytest.raises(Unauthenticated):
            issuer.authenticate(token)
            pytest.fail(name)


def test_keys_that_are_no_public_signing_keys_are_not_taken(provider: IdentityProvider, clock: Clock) -> None:
    """A symmetric key among the published ones, a short one, and one for another purpose sign nothing."""
    with pytest.warns(match="2048"):
        short = RSAKey.generate_key(1024, {"kid": "short"})
    enciphering = rsa({"kid": "enc", "use": "enc"})
    other = rsa({"kid": "other", "alg": "RS512"})
    listed = [key.as_dict(private=False) for key in (short, enciphering, other)]
    shared = OctKey.import_key(b"x" * 32, {"kid": "shared"}).as_dict(private=True)
    wrong = [{"kty": "RSA", "kid": "x"}, {"kty": "EC", "crv": "P-256", "x": "!", "y": 1}, 7, {"kty": "RSA", "n": 1}]
    body = json.dumps({"keys": [*listed, shared, *wrong, provider.keys[0].as_dict(private=False)]}).encode()
    provider.answers["/keys"] = 200, body
    issuer = Issuer(settings(provider), IssuerKeys(provider.issuer, clock=clock))
    for one in (provider.token(short), provider.token(RSAKey.import_key(other.private_key, {"kid": "other"}))):
        with pytest.raises(Unauthenticated, match="unknown key"):
            issuer.authenticate(one)
    head = encoded({"alg": "HS256", "kid": "shared"})
    claims = encoded(provider.claims())
    signature = encoded(hmac.digest(b"x" * 32, f"{head}.{claims}".encode(), hashlib.sha256))
    with pytest.raises(Unauthenticated):
        issuer.authenticate(f"{head}.{claims}.{signature}")
    assert issuer.authenticate(provider.token()).role is Role.READ


def test_a_new_key_is_found_and_an_old_one_ends(provider: IdentityProvider, issuer: Issuer, clock: Clock) -> None:
    issuer.authenticate(before := provider.token())
    clock.now += PAUSE_SECONDS + 1
    provider.keys = [ECKey.generate_key("P-256", {"kid": "second"})]
    assert issuer.may_wait(provider.token())
    assert issuer.authenticate(provider.token()).role is Role.READ
    assert not issuer.may_wait(provider.token())
    with pytest.raises(Unauthenticated, match="unknown key"):
        issuer.authenticate(before)


def test_a_key_that_was_taken_back_ends_within_minutes(
    provider: IdentityProvider, issuer: Issuer, clock: Clock
) -> None:
    token = provider.token()
    issuer.authenticate(token)
    provider.keys = [rsa({"kid": "second"})]
    clock.now += FRESH_SECONDS + 1
    with pytest.raises(Unauthenticated, match="unknown key"):
        issuer.authenticate(token)


def test_unknown_keys_do_not_make_the_server_ask_again_and_again(provider: IdentityProvider, issuer: Issuer) -> None:
    issuer.authenticate(provider.token())
    asked = len(provider.asked)
    stranger = rsa({})
    for number in range(20):
        with pytest.raises(Unauthenticated):
            issuer.authenticate(provider.token(stranger, {"kid": f"guess-{number}"}))
    assert len(provider.asked) <= asked + 2


def test_while_the_issuer_is_down_nobody_is_let_in_who_cannot_be_checked(
    provider: IdentityProvider, issuer: Issuer, clock: Clock
) -> None:
    provider.answers[DISCOVERY] = 500, b"down"
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be fetched"):
            issuer.authenticate(provider.token())
    del provider.answers[DISCOVERY]
    clock.now += PAUSE_SECONDS + 1
    assert issuer.authenticate(provider.token()).role is Role.READ
    provider.answers[DISCOVERY] = 500, b"down"
    clock.now += FRESH_SECONDS + 1
    assert issuer.authenticate(provider.token()).role is Role.READ, "known keys serve for a while"
    with pytest.raises(Unavailable):
        issuer.authenticate(provider.token(rsa({"kid": "new"})))
    clock.now += STALE_SECONDS
    with pytest.raises(Unavailable):
        issuer.authenticate(provider.token())


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (DISCOVERY, (302, b"http://127.0.0.1:1/")),
        (DISCOVERY, (200, b"[]")),
        (DISCOVERY, (200, b"{")),
        (DISCOVERY, (200, b"[" * 100_000)),
        (DISCOVERY, (200, b'{"issuer": "https://evil.example", "jwks_uri": "https://evil.example/keys"}')),
        (DISCOVERY, (200, b'{"issuer": "ISSUER", "jwks_uri": "http://example.com/keys"}')),
        (DISCOVERY, (200, b'{"issuer": "ISSUER", "jwks_uri": "file:///etc/passwd"}')),
        (DISCOVERY, (200, b'{"issuer": "ISSUER"}')),
        ("/keys", (200, b'{"keys": {}}')),
        ("/keys", (200, b'{"keys": [], "x": "' + b"x" * (issuer_keys._LARGEST) + b'"}')),
        ("/keys", (404, b"{}")),
    ],
)
def test_documents_that_are_wrong_are_not_believed(
    provider: IdentityProvider, issuer: Issuer, path: str, answer: tuple[int, bytes]
) -> None:
    provider.answers[path] = answer[0], answer[1].replace(b"ISSUER", provider.issuer.encode())
    with pytest.raises(Unavailable, match="cannot be fetched"):
        issuer.authenticate(provider.token())


def test_an_issuer_that_does_not_listen_is_unavailable() -> None:
    with pytest.raises(OSError, match="refused"):
        fetch_json("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("address", "audience", "roles"),
    [
        ("http://idp.example.com", "moulin", ROLES),
        ("file:///etc", "moulin", ROLES),
        ("https://user:secret@idp.example.com", "moulin", ROLES),
        ("idp.example.com", "moulin", ROLES),
        ("https://idp.example.com", "", ROLES),
        ("https://idp.example.com", "moulin", ""),
        ("https://idp.example.com", "moulin", "readers"),
        ("https://idp.example.com", "moulin", "=read"),
        ("https://idp.example.com", "moulin", "readers=king"),
    ],
)
def test_settings_that_are_wrong_are_refused(address: str, audience: str, roles: str) -> None:
    with pytest.raises(InvalidInput):
        IssuerSettings.of(address, audience, "roles", roles)
