"""The features of the kernel, and the designs and primitives that declare to need them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from thunderherd.doctor.kind import DoctorOutput
from thunderherd.engine.catalogue import Catalogue, Feature, Runnable


class KernelFeature(DoctorOutput):
    """A kernel feature, and the entries that need it."""

    name: str = Field(description="name of the feature, as in the manual pages")
    since: str | None = Field(
        description="first Linux version with everything that is used of it. Null: every Linux has it"
    )
    available: bool = Field(description="whether this kernel has it; the engine has tried it")
    reason: str | None = Field(description="why it is unavailable. Null: it is available")
    designs: tuple[str, ...] = Field(description="designs that need it")
    primitives: tuple[str, ...] = Field(description="primitives that need it")

    @property
    def entries(self) -> tuple[str, ...]:
        """All entries that need it."""
        return (*self.designs, *self.primitives)


def kernel_features(catalogue: Catalogue) -> tuple[KernelFeature, ...]:
    """Return all kernel features, each once, by the Linux version that introduced them."""
    known = {feature.name: feature for feature in _all(*catalogue.designs, *catalogue.primitives)}
    return tuple(
        KernelFeature(
            **feature.model_dump(),
            designs=tuple(each.name for each in catalogue.designs if _rests_on(each, feature)),
            primitives=tuple(each.name for each in catalogue.primitives if _rests_on(each, feature)),
        )
        for feature in sorted(known.values(), key=_age)
    )


def _rests_on(entry: Runnable, feature: Feature) -> bool:
    """True if an entry needs a feature, by name: two entries may report different results of trying it."""
    return any(each.name == feature.name for each in entry.rests_on)


def _all(*entries: Runnable) -> Iterator[Feature]:
    for entry in entries:
        yield from entry.rests_on


def _age(feature: Feature) -> tuple[int, ...]:
    """Return a sort key: `2.6.17` before `4.5`, and features of every Linux first."""
    return tuple(int(part) for part in (feature.since or "0").split("."))
