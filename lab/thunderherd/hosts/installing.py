"""Copies the agent to a host, and removes it: one file, into a private folder of the user."""

from __future__ import annotations

from thunderherd.errors import UserError
from thunderherd.files import temporary_folder
from thunderherd.hosts.addresses import SSH, HostAddress
from thunderherd.hosts.bundle import FOLDER, PYTHON, bundle_name, write_bundle
from thunderherd.hosts.ssh import run_there

INSTALL = """\
set -eu
umask 077
command -v {python} >/dev/null || {{ echo "there is no {python}, which the agent needs" >&2; exit 1; }}
folder="$HOME/{folder}"
new="$folder/{name}.new"
trap 'rm -rf "$new"' EXIT
rm -rf "$new"
mkdir -p "$new"
cat >"$new/agent.tar.gz"
digest=$(sha256sum <"$new/agent.tar.gz" | cut -d" " -f1)
[ "$digest" = {digest} ] || {{ echo "the file has arrived damaged" >&2; exit 1; }}
tar -xzf "$new/agent.tar.gz" -C "$new"
rm "$new/agent.tar.gz"
rm -rf "$folder/{name}"
mv "$new" "$folder/{name}"
"""
UNINSTALL = """\
set -eu
[ -d "$HOME/{folder}" ] || {{ echo "nothing is installed"; exit 0; }}
ls "$HOME/{folder}"
rm -rf "$HOME/{folder}"
rmdir "$(dirname "$HOME/{folder}")" 2>/dev/null || true
"""


def install(address: HostAddress) -> int:
    """Copy the agent to a host; return the size of the file in bytes.

    Raises `UserError` if SSH or the host refuses.
    """
    _check(address)
    with temporary_folder() as folder:
        file = folder / "agent.tar.gz"
        digest = write_bundle(file)
        script = INSTALL.format(python=PYTHON, folder=FOLDER, name=bundle_name(), digest=digest)
        with file.open("rb") as sent:
            run_there(address, script, sent)
        return file.stat().st_size


def uninstall(address: HostAddress) -> list[str]:
    """Remove all agents of this user from a host; return their names."""
    _check(address)
    printed = run_there(address, UNINSTALL.format(folder=FOLDER)).splitlines()
    return [] if printed == ["nothing is installed"] else printed


def _check(address: HostAddress) -> None:
    if address.kind != SSH:
        raise UserError(
            f"{address} is not reached over SSH, so nothing can be installed there",
            code="hosts.nothing_to_install",
        )
