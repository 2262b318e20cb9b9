"""A study whose server is in the first namespace of a network and whose load is in the others."""

from __future__ import annotations

import sys
from pathlib import Path

from made.hosts.network import Network
from made.small_studies import head
from thunderherd.engine.client import catalogue
from thunderherd.study.loading import Study, load_study

STUDY = (
    head(
        "hosts",
        kind="closed_connections",
        load="",
        settings="{settings}",
        metric="server_cpu_per_request",
    )
    + """\
[lab]
server = "netns:{server}"
load = [{load}]
[comparisons]
all_pairs = false
[sizes.quick]
repetitions = 1
[[contenders]]
name = "epoll"
design = "epoll"
"""
)


def study_of(
    folder: Path,
    network: Network,
    duration: str = "300ms",
    *,
    load_hosts: int = 2,
    lab: str = "",
    settings: str = "",
) -> Study:
    """The study; `lab` has further lines of its table, and `settings` other settings of the load.

    The start of each host takes a second of a CPU, so a test that needs no two for the load has one.
    """
    server, *others = network.names[: 1 + load_hosts]
    text = STUDY.replace("{settings}", settings or f'clients = 7, duration = "{duration}", bytes = 4000')
    text = text.replace("{server}", server).replace("{load}", ", ".join(f'"netns:{each}"' for each in others))
    path = folder / "hosts.toml"
    path.write_text(text.replace("[comparisons]", f"{lab}\n[comparisons]"))
    return load_study(str(path), "quick", (), catalogue())


DRIVER = """\
import sys
from pathlib import Path
from thunderherd.engine.client import catalogue
from thunderherd.run.runner import run_study
from thunderherd.study.loading import load_study
study = load_study(sys.argv[1], "quick", (), catalogue())
run_study(study, Path(sys.argv[2]), seed=1)
"""


def driver_of(study: Path, run: Path) -> list[str]:
    """Return the command of another process that runs a study."""
    return [sys.executable, "-c", DRIVER, str(study), str(run)]
