"""What settings of a load need of each other, as the engine lists it: it refuses a load that has one of these
broken, and a study is told so before its first trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict


class Requirement(BaseModel):
    """What a whole-number setting needs of another one as soon as it is more than `beyond`."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    setting: str
    beyond: int
    needs: Literal["word", "as_many", "product"]
    """That the other has this `word`, is at least as large, or makes a product of `most` at most."""
    other: str
    word: str | None = None
    most: int | None = None

    def broken(self, load: Mapping[str, str | int | bool]) -> str | None:
        """In words, how the settings of a load contradict each other, and what would not; None where they do
        not."""
        value, other = int(load[self.setting]), load[self.other]
        if value <= self.beyond:
            return None
        said = f"the load has {self.setting} = {value} and {self.other} = "
        if self.needs == "word":
            if other == self.word:
                return None
            return f'{said}"{other}"; give {self.other} = "{self.word}" too, or leave {self.setting} out'
        if self.needs == "as_many":
            if int(other) >= value:
                return None
            return f"{said}{other}; {self.other} must be {value} or more, or {self.setting} less"
        if self.most is None or value * int(other) <= self.most:
            return None
        return f"{said}{other}, whose product is {value * int(other)}; allowed: at most {self.most}"
