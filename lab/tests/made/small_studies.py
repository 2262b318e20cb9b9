"""The head of a study that is small enough for a test; its sizes and contenders follow."""

from __future__ import annotations

HEAD = """\
name = "{name}"
title = "A small study"
question = "Does it run?"
[measure]
metric = "{metric}"
limits = "{limits}"
{measure}[server]
workload = "{workload}"
primitive = "send_each"
{server}[load]
kind = "{kind}"
{load}settings = {{ {settings} }}
[noise]
steal = "100%"
foreign = "100%"
"""


def head(
    name: str,
    *,
    metric: str = "server_cpu_per_connection",
    limits: str = "0",
    measure: str = "",
    workload: str = "bytes",
    server: str = "",
    kind: str = "closed",
    load: str = "processes = 2\nwarm_up_connections = 10\n",
    settings: str = "children = 2, loops = 25, bytes = 4000",
) -> str:
    """A study on which noise has no say, up to its sizes, and which measures no limits.

    `measure`, `server` and `load` are further lines of these tables, each with its end; `settings` are those
    of the load, which is of this `kind`.
    """
    return HEAD.format_map(locals())


def one_block(
    name: str,
    *,
    workload: str,
    kind: str,
    settings: str,
    metric: str = "server_cpu_per_request",
    server: str = "",
    load: str = "",
    all_pairs: bool = False,
) -> str:
    """A study of one block, up to its contenders, without comparisons by default; else as `head`."""
    above = head(
        name, metric=metric, workload=workload, server=server, kind=kind, load=load, settings=settings
    )
    return f"{above}[comparisons]\nall_pairs = {str(all_pairs).lower()}\n[sizes.quick]\nrepetitions = 1\n"


MEASURE = 'baseline = "iterative"\nnormalise_connections = 5000\n'


SMALL_STUDY = (
    head("small", measure=MEASURE)
    + """\
[sizes.quick]
looks = [10]
alpha_split = [1.0]
[sizes.full]
looks = [10, 12, 16]
alpha_split = [0.3, 0.3, 0.4]
[[contenders]]
name = "iterative"
design = "iterative"
[[contenders]]
name = "fork_per_client"
design = "fork_per_client"
[[contenders]]
name = "prefork"
design = "prefork"
settings = { pool = 3 }
"""
)


TIMED = head(
    "timed",
    metric="requests_per_second",
    kind="timed",
    load="processes = 1\nwarm_up_connections = 10\n",
    settings='children = 2, duration = "200ms", bytes = 4000',
) + "".join(
    f'[[contenders]]\nname = "{name}"\ndesign = "{name}"\n' for name in ("iterative", "prefork")
).replace("[[contenders]]\n", "[sizes.quick]\nrepetitions = 1\n[[contenders]]\n", 1)
"""A window of a time, for two designs."""
