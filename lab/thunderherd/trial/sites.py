"""The sites of a run: one for each lab, made before the first trial and removed after the last."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.hosts.addresses import host_of
from thunderherd.labs import KINDS
from thunderherd.labs.kind import Site
from thunderherd.labs.words import Ends
from thunderherd.study.loading import Lab, Study
from thunderherd.study.own_programs import allowed_programs


@contextlib.contextmanager
def site_of(lab: Lab, engine: Path | None = None, ends: Ends | None = None) -> Iterator[Site]:
    """Make the site of a lab for the duration of the block. Main thread only.

    `ends` are what all labs that share the site need; None: this lab only.

    Raises `UserError` with the reason if the lab is unavailable on this machine.
    """
    with KINDS[lab.kind].site(lab.settings, engine, ends or lab.ends) as site:
        yield site


@contextlib.contextmanager
def sites_of(study: Study, engine: Path | None = None) -> Iterator[Mapping[str, Site]]:
    """Make the sites of all labs of a study: `Lab.network` → the site of all contenders in it."""
    labs = {contender.lab.network: contender.lab for contender in study.contenders}
    with contextlib.ExitStack() as made:
        sites: dict[str, Site] = {}
        for network, lab in labs.items():
            try:
                sites[network] = made.enter_context(site_of(lab, engine, _ends(study, lab)))
            except UserError as error:
                problems = [
                    replace(
                        each, message=f"lab {network}: {each.message}", code=each.code or "lab.unavailable"
                    )
                    for each in error.problems
                ]
                raise UserError(*problems) from None
        yield sites


def _ends(study: Study, lab: Lab) -> Ends:
    """Return the hosts of a lab, with the servers, programs and CPUs of all contenders in its network."""
    there = [each for each in study.contenders if each.lab.network == lab.network]
    running = [each.own_server.address for each in there if each.own_server and each.own_server.address]
    return replace(
        lab.ends,
        targets=tuple(dict.fromkeys(map(host_of, running))),
        programs=tuple(dict.fromkeys(allowed_programs(there))),
        server_cpus=tuple(sorted({cpu for each in there for cpu in each.lab.ends.server_cpus})),
        client_cpus=tuple(sorted({cpu for each in there for cpu in each.lab.ends.client_cpus})),
    )
