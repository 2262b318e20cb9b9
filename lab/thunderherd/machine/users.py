"""The users of this machine, of whom root may choose one for servers and clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thunderherd.files import read_bytes

__all__ = ["User", "find_user"]

PASSWORDS = Path("/etc/passwd")
"""The users of this machine (passwd(5)); tests give another file."""


@dataclass(frozen=True)
class User:
    """A user and the user's own group, by their numbers."""

    number: int
    group: int


def find_user(name: str) -> User | None:
    """Return a user by name or number; None if there is none.

    The engine, which becomes this user, reads only this file, and no other source of users
    (nsswitch.conf(5)). So users of other sources, such as LDAP, do not exist here either.
    """
    number = int(name) if name.isdecimal() else None
    # The full name of a user may be in any encoding.
    for line in read_bytes(PASSWORDS).decode(errors="surrogateescape").split("\n"):
        fields = line.split(":")
        if len(fields) < 4 or not (fields[2].isdecimal() and fields[3].isdecimal()):
            continue
        if fields[0] == name or int(fields[2]) == number:
            return User(int(fields[2]), int(fields[3]))
    return None
