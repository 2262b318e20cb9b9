"""The examinations of a machine: one file each, and a line here, in the order of the page."""

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
"""All examinations, by the name of their file."""
