"""What the settings of the two ends of a workload have to do with each other, as the engine declares it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SettingValue = bool | int | str
"""The value of one setting; its unit, where it has one, is `Setting.unit`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Agreement(_Part):
    """A setting of the asking end that one of the serving end bounds: where it does not, requests fail."""

    client: str
    relation: Literal["equal", "at_most"]
    service: str

    def broken(
        self,
        load: Mapping[str, SettingValue],
        server: Mapping[str, SettingValue],
        largest: int | None = None,
    ) -> str | None:
        """In words, how the settings of both ends contradict each other; None where they do not.

        `largest` is the most that a distribution of sizes comes to, where one is given.
        """
        if self.client not in load:  # another setting stands instead of it
            return None
        asked, given = load[self.client], server[self.service]
        if asked == given:
            return None
        said = f"the load has {self.client} = {_toml(asked)}"
        own = f"the server {self.service} = {_toml(given)}"
        if self.relation == "equal":
            return f"{said}, {own}; requests would fail: give both the same value"
        if isinstance(asked, str):
            if largest is None:
                return None
            said, asked = f"{said}, of which one may be {largest}", largest
        if isinstance(given, str) or asked <= given:
            return None
        remedy = (
            "turn it on for both, or off for the load"
            if asked is True
            else f"lower {self.client} of the load or raise {self.service} of the server"
        )
        return f"{said}, {own}, which is less; requests would fail: {remedy}"


def _toml(value: SettingValue) -> str:
    return json.dumps(value)


class Product(_Part):
    """Two whole numbers among the settings of the asking end whose product is given, such as pieces and the
    size of each of something whole: with any others the engine refuses the load."""

    settings: tuple[str, str]
    product: int = Field(ge=1)

    def nearest(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """The two numbers of this product that differ the least from those wanted (1 or more), each as a
        ratio; what nothing is wanted of follows from the other."""
        return min(
            self.pairs(self.settings[0]),
            key=lambda pair: sum(math.log(pair[name] / number) ** 2 for name, number in wanted.items()),
        )

    def pairs(self, over: str) -> list[dict[str, int]]:
        """All that there are, in the order of one of the two settings, which stands first."""
        (other,) = (name for name in self.settings if name != over)
        divisors = (number for number in range(1, self.product + 1) if self.product % number == 0)
        return [{over: number, other: self.product // number} for number in divisors]
