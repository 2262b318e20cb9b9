"""The features of the kernel, and the designs and primitives that rest on each, as these say themselves."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from thunderherd.doctor.kind import Told
from thunderherd.engine.catalogue import Catalogue, Feature, Runnable


class KernelFeature(Told):
    """A feature of the kernel, and what rests on it."""

    name: str = Field(description="as the manual pages have it")
    since: str | None = Field(description="the first Linux that has all that is used of it; null: every one")
    available: bool = Field(description="whether it is here; the engine has tried it")
    reason: str | None = Field(description="why it is not")
    designs: tuple[str, ...]
    primitives: tuple[str, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        """All that rests on it."""
        return (*self.designs, *self.primitives)


def kernel_features(catalogue: Catalogue) -> tuple[KernelFeature, ...]:
    """All of them, each once: in the order in which they came to Linux."""
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
    """By name: what came of trying it need not be alike where it is told twice."""
    return any(each.name == feature.name for each in entry.rests_on)


def _all(*entries: Runnable) -> Iterator[Feature]:
    for entry in entries:
        yield from entry.rests_on


def _age(feature: Feature) -> tuple[int, ...]:
    """`2.6.17` comes before `4.5`, and what every Linux has before both."""
    return tuple(int(part) for part in (feature.since or "0").split("."))
