"""Who owns a region, as the catalog names it, and whether that process still lives.

    process 4711 on web-1 [3f2a9c01 4026531836 8812345 always]

In brackets: the boot of the machine, the pid namespace (a container has its own), the time since boot at which the
process began, and how its log syncs; `flushing` follows while it only flushes what another process left. A pid that was
given again, and a container of the same host name, differ in them. Earlier versions wrote no brackets.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

_OWNER = re.compile(r"process (\d+) on (.*) \[(\S+) (\S+) (\S+) (\w+)( flushing)?\]")
_UNKNOWN = "-"


def this_process(sync: str, *, flushing: bool = False) -> str:
    """The name of this process, as the owner of a region whose log syncs like this."""
    boot, space = _machine()
    started = _started(os.getpid()) or _UNKNOWN
    return f"process {os.getpid()} on {socket.gethostname()} [{boot} {space} {started} {sync}{' flushing' * flushing}]"


def shown(owner: str) -> str:
    """An owner for messages: `process 4711 on web-1`."""
    return owner.partition(" [")[0]


def is_mine(owner: str) -> bool:
    """Whether an owner is this process."""
    found = _OWNER.fullmatch(owner)
    return found is not None and found[1] == str(os.getpid()) and is_alive(owner) is not False


def is_alive(owner: str) -> bool | None:
    """Whether an owner is running; None if unknown from this machine."""
    found = _OWNER.fullmatch(owner)
    if found is None or _UNKNOWN in found.groups() or (found[3], found[4]) != _machine():
        return None
    return _started(int(found[1])) == found[5]


def is_named(owner: str) -> bool:
    """Whether this version claimed the region: then its log was there before, and stays until it is released."""
    return _OWNER.fullmatch(owner) is not None


def syncs_always(owner: str) -> bool:
    """Whether everything that the owner acknowledged was durable in its log."""
    found = _OWNER.fullmatch(owner)
    return found is not None and found[6] == "always"


def is_flushing(owner: str) -> bool:
    """Whether the owner claimed the region only to flush an abandoned log."""
    found = _OWNER.fullmatch(owner)
    return found is not None and found[7] is not None


def is_of_this_host(owner: str) -> bool:
    """Whether an owner ran on this machine, by its name: its log on a disk should be here."""
    found = _OWNER.fullmatch(owner)
    return found is not None and found[2] == socket.gethostname()


def _machine() -> tuple[str, str]:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        return boot, str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return _UNKNOWN, _UNKNOWN


def _started(pid: int) -> str | None:
    """When a process began, in ticks since boot; None when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
