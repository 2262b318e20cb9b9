"""Rules between the settings of server and clients, as the engine declares them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SettingValue = bool | int | str
"""The value of a setting, in the unit `Setting.unit` if it has one."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Agreement(_Part):
    """A setting of the clients that must equal, or not exceed, one of the server. Otherwise requests fail."""

    client: str
    relation: Literal["equal", "at_most"]
    service: str

    def broken(
        self,
        load: Mapping[str, SettingValue],
        server: Mapping[str, SettingValue],
        largest: int | None = None,
    ) -> tuple[str, str] | None:
        """Return how the settings of both ends contradict each other, and a hint; None if they agree.

        `largest` is the largest size of a distribution of sizes, if the load has one.
        """
        if self.client not in load:  # another setting replaces it
            return None
        wanted, allowed = load[self.client], server[self.service]
        if wanted == allowed:
            return None
        of_load = f"the load has {self.client} = {_toml(wanted)}"
        of_server = f"the server has {self.service} = {_toml(allowed)}"
        if self.relation == "equal":
            return f"{of_load}, but {of_server}", "give both the same value; otherwise requests fail"
        if isinstance(wanted, str):
            if largest is None:
                return None
            of_load, wanted = f"{of_load}, with sizes up to {largest}", largest
        if isinstance(allowed, str) or wanted <= allowed:
            return None
        hint = (
            "turn it on for both, or off for the load"
            if wanted is True
            else f"lower {self.client} of the load or raise {self.service} of the server"
        )
        return f"{of_load}, but {of_server}", f"{hint}; otherwise requests fail"


def _toml(value: SettingValue) -> str:
    return json.dumps(value)


class Product(_Part):
    """Two settings of the clients whose product is fixed, such as the number and the size of pieces.

    The engine refuses a load with another product.
    """

    settings: tuple[str, str]
    product: int = Field(ge=1)

    def nearest(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return the pair of numbers nearest to the wanted ones (1 or more), by ratio.

        A number that is not wanted follows from the other.
        """
        return min(
            self.pairs(self.settings[0]),
            key=lambda pair: sum(math.log(pair[name] / number) ** 2 for name, number in wanted.items()),
        )

    def pairs(self, over: str) -> list[dict[str, int]]:
        """Return all pairs, sorted by the setting `over`, which comes first in each."""
        (other,) = (name for name in self.settings if name != over)
        divisors = (number for number in range(1, self.product + 1) if self.product % number == 0)
        return [{over: number, other: self.product // number} for number in divisors]
