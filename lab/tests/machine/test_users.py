"""Users are found by name and by number in the file that the engine reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunderherd.machine.users import User, find_user


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nobody", User(65_534, 65_533)), ("65534", User(65_534, 65_533)), ("root", User(0, 0)),
        ("0", User(0, 0)), ("7", User(1000, 1000)), ("65533", None), ("absent", None), ("", None),
        ("+", None), ("²", None),
    ],
)  # fmt: skip
def test_users_are_found_by_name_and_by_number(
    name: str, found: User | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "passwd"
    # Full names are in any encoding, here in Latin-1, and one has what Python takes for line ends.
    passwords.write_bytes(
        b"root:x:0:0:Ren\xe9:/:/bin/sh\n+\nshort:x\nbad:x:x:x::/:\n7:x:1000:1000::/:\n"
        b"nobody:x:65534:65533:\x85\x0babsent:x:1:1:\r:/:\n"
    )
    monkeypatch.setattr("thunderherd.machine.users.PASSWORDS", passwords)
    assert find_user(name) == found
