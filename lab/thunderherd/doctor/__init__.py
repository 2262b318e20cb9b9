"""The examinations of a machine: a file each, and a line here. They are shown in this order."""

from __future__ import annotations

from thunderherd.doctor import (
    clock_source,
    clock_speed,
    counters,
    features,
    mitigations,
    namespaces,
    neighbours,
    network,
    processors,
    resources,
)
from thunderherd.doctor.kind import Examination

EXAMINATIONS: dict[str, Examination] = {
    each.__name__.rpartition(".")[2]: each.EXAMINATION
    for each in (
        processors,
        clock_speed,
        clock_source,
        mitigations,
        neighbours,
        counters,
        features,
        namespaces,
        resources,
        network,
    )
}
"""All examinations, by name, which is that of the file."""
