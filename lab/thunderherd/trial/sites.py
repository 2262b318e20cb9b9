"""Where trials take place: a site for each lab of a run, made before the first trial, gone after the last."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.labs import KINDS
from thunderherd.labs.kind import Site
from thunderherd.study.loading import Lab, Study


@contextlib.contextmanager
def site_of(lab: Lab, engine: Path | None = None) -> Iterator[Site]:
    """Where trials of a lab take place, for as long as the block lasts. Main thread only.

    Raises `UserError` where the lab cannot be had here; the message says why.
    """
    with KINDS[lab.kind].site(lab.settings, engine) as site:
        yield site


@contextlib.contextmanager
def sites_of(study: Study, engine: Path | None = None) -> Iterator[Mapping[str, Site]]:
    """The sites of all labs of a study, by `Lab.network`: each once, however many contenders are there."""
    labs = {contender.lab.network: contender.lab for contender in study.contenders}
    with contextlib.ExitStack() as made:
        sites: dict[str, Site] = {}
        for network, lab in labs.items():
            try:
                sites[network] = made.enter_context(site_of(lab, engine))
            except UserError as error:
                raise UserError(f"lab {network}: {error}") from None
        yield sites
