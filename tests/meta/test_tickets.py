"""Tickets: they live as long as they say, and no longer than what they were made of."""

from __future__ import annotations

import base64
import json
import stat
import threading
import time
from pathlib import Path

import pytest

from moulin.errors import PermissionDenied, Unauthenticated, Unavailable
from moulin.meta.auth import AccessFile, Gate
from moulin.meta.authority import Authority
from moulin.meta.roles import Role
from moulin.meta.tickets import RENEWED_SECONDS, Tickets


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "access.toml")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tickets(access: AccessFile, clock: Clock) -> Tickets:
    return Tickets(access, 600, clock)


def test_a_ticket_has_the_role_of_its_token_or_less(access: AccessFile, tickets: Tickets) -> None:
    secret = access.create("ci", Role.WRITE)
    ticket, seconds = tickets.issue("ci", secret)
    assert (tickets.authenticate(ticket).name, tickets.authenticate(ticket).role) == ("ci", Role.WRITE)
    assert seconds == 600
    assert tickets.authenticate(tickets.issue(None, secret, Role.READ)[0]).role is Role.READ
    assert tickets.authenticate(tickets.issue("ci", secret, Role.ADMIN)[0]).role is Role.WRITE
    less = tickets.issue("ci", secret, Role.READ)[0]
    assert tickets.authenticate(tickets.exchange(less)[0]).role is Role.READ, "an exchange gives no more"
    assert secret not in ticket


@pytest.mark.parametrize(("name", "secret"), [("ci", "mlt_wrong"), ("other", None), ("CI", None), ("ci", "")])
def test_a_foreign_name_or_secret_gets_nothing(
    access: AccessFile, tickets: Tickets, name: str, secret: str | None
) -> None:
    own = access.create("ci", Role.WRITE)
    access.create("other", Role.ADMIN)
    with pytest.raises(Unauthenticated):
        tickets.issue(name, own if secret is None else secret)


def test_a_ticket_ends_with_its_token(access: AccessFile, tickets: Tickets) -> None:
    ticket, _ = tickets.issue("ci", access.create("ci", Role.ADMIN))
    access.revoke("ci")
    for use in (tickets.authenticate, tickets.exchange):
        with pytest.raises(Unauthenticated):
            use(ticket)
    access.create("ci", Role.ADMIN)
    with pytest.raises(Unauthenticated):
        tickets.authenticate(ticket)


def test_a_ticket_expires_and_can_be_renewed_for_a_day(access: AccessFile, tickets: Tickets, clock: Clock) -> None:
    secret = access.create("ci", Role.READ)
    start, (ticket, _) = clock.now, tickets.issue("ci", secret)
    old = ticket
    clock.now += 599
    assert tickets.authenticate(old).role is Role.READ
    while clock.now < start + RENEWED_SECONDS:
        ticket, _ = tickets.exchange(ticket)
        clock.now += 599
    with pytest.raises(Unauthenticated, match="for a day"):
        tickets.exchange(ticket)
    for use in (tickets.authenticate, tickets.exchange):
        with pytest.raises(Unauthenticated, match="expired"):
            use(old)


def test_a_ticket_lives_no_longer_than_its_token(access: AccessFile, tickets: Tickets, clock: Clock) -> None:
    secret = access.create("ci", Role.READ, days=100 / 86400)
    ticket, seconds = tickets.issue("ci", secret)
    assert seconds <= 100
    clock.now += 101
    with pytest.raises(Unauthenticated, match="expired"):
        tickets.authenticate(ticket)


def test_a_forged_ticket_is_refused(access: AccessFile, tickets: Tickets) -> None:
    ticket, _ = tickets.issue("ci", access.create("ci", Role.READ))
    head, _, mac = ticket.removeprefix("mlk_").partition(".")
    fields = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    fields[2] = int(Role.ADMIN)
    raised = base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
    forged = [f"mlk_{raised}.{mac}", f"mlk_{head}.", f"mlk_{head}", "mlk_.", "mlk_" + "x" * 5000, f"mlk_{head}.{mac}x"]
    for one in [*forged, f"mlk_{head}.{mac}.", f"mlk_\xff.{mac}", f"{head}.{mac}"]:
        with pytest.raises(Unauthenticated):
            tickets.authenticate(one)


def test_servers_that_share_the_files_take_each_others_tickets(access: AccessFile) -> None:
    """Also when they make the key at the same time."""
    secret = access.create("ci", Role.READ)
    servers = [Tickets(AccessFile(access.path), 600) for _ in range(8)]
    made: list[str] = []
    threads = [threading.Thread(target=lambda one=one: made.append(one.issue("ci", secret)[0])) for one in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.authenticate(ticket).name == "ci" for one in servers for ticket in made)
    key = access.path.with_name("access.toml.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(path.name for path in access.path.parent.iterdir()) == ["access.toml", "access.toml.key"]


def test_without_its_key_a_ticket_is_nothing(access: AccessFile, tickets: Tickets) -> None:
    secret = access.create("ci", Role.READ)
    ticket, _ = tickets.issue("ci", secret)
    key = access.path.with_name("access.toml.key")
    key.unlink()
    again, _ = tickets.issue("ci", secret)
    assert tickets.authenticate(again).name == "ci"
    with pytest.raises(Unauthenticated):
        tickets.authenticate(ticket)
    key.write_text("short")
    with pytest.raises(Unavailable, match="key"):
        tickets.authenticate(again)


def test_grpc_takes_tickets_as_it_takes_tokens(access: AccessFile) -> None:
    authority = Authority(access)
    assert authority.tickets is not None
    ticket, _ = authority.tickets.issue("ci", access.create("ci", Role.READ))
    gate = Gate(authority, {"/a/Look": Role.READ})
    assert gate("/a/Look", [("authorization", f"Bearer {ticket}")]).name == "ci"
    with pytest.raises(PermissionDenied):
        gate("/a/Change", [("authorization", f"Bearer {ticket}")])
