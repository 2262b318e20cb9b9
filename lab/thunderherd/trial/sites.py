"""The sites of a run: one for each lab, made before the first trial and removed after the last."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.hosts.addresses import host_of
from thunderherd.labs import KINDS
from thunderherd.labs.kind import Site
from thunderherd.study.loading import Lab, Study


@contextlib.contextmanager
def site_of(lab: Lab, engine: Path | None = None, running: Collection[str] = ()) -> Iterator[Site]:
    """Make the site of a lab for the duration of the block. Main thread only.

    `running` are the hosts of running servers, to which its loads may be sent, too.

    Raises `UserError` with the reason if the lab is unavailable on this machine.
    """
    ends = replace(lab.ends, running=tuple(running))
    with KINDS[lab.kind].site(lab.settings, engine, ends) as site:
        yield site


@contextlib.contextmanager
def sites_of(study: Study, engine: Path | None = None) -> Iterator[Mapping[str, Site]]:
    """Make the sites of all labs of a study: `Lab.network` → the site of all contenders in it."""
    labs = {contender.lab.network: contender.lab for contender in study.contenders}
    with contextlib.ExitStack() as made:
        sites: dict[str, Site] = {}
        for network, lab in labs.items():
            try:
                sites[network] = made.enter_context(site_of(lab, engine, _running(study, network)))
            except UserError as error:
                problems = [
                    replace(
                        each, message=f"lab {network}: {each.message}", code=each.code or "lab.unavailable"
                    )
                    for each in error.problems
                ]
                raise UserError(*problems) from None
        yield sites


def _running(study: Study, network: str) -> list[str]:
    """Return the hosts of the running servers that a study measures in a lab."""
    own = [each.own_server for each in study.contenders if each.lab.network == network]
    return list(dict.fromkeys(host_of(each.address) for each in own if each and each.address))
