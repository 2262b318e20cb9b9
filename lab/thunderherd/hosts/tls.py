"""The encryption of a Dask cluster that somebody else has started, from Dask's own configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thunderherd.errors import UserError
from thunderherd.hosts.addresses import TLS

KEYS = "distributed.comm.tls"
"""Where Dask's configuration has the files."""


def security_of(scheduler: str, role: str) -> Any:
    """Return what connects to a scheduler in a role of Dask's, `client` or `worker`.

    Raises `UserError` if Dask's configuration has no certificate for the role, or one that cannot be used.
    """
    from distributed.security import Security

    if not scheduler.startswith(TLS):
        return Security(require_encryption=False)
    try:
        found = Security(require_encryption=True)
        files = found.get_tls_config_for_role(role)
        for key, name in (("ca_file", "ca-file"), ("cert", f"{role}.cert"), ("key", f"{role}.key")):
            file = files.get(key)
            if not file:
                raise _refusal(f"Dask's configuration has no {KEYS}.{name}")
            # Dask also takes the text of a certificate.
            if "\n" not in file and not Path(file).is_file():
                raise _refusal(f"{KEYS}.{name}: there is no file {file}")
        found.get_connection_args(role)
    except (OSError, ValueError) as error:
        raise _refusal(f"{KEYS}: the certificate or key of {role} cannot be used: {error}") from None
    return found


def _refusal(message: str) -> UserError:
    hint = "set it, such as DASK_DISTRIBUTED__COMM__TLS__CA_FILE=FILE; see docs/clusters.md"
    return UserError(message, code="hosts.certificate", hint=hint)
