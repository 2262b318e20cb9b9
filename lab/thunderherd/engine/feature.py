"""A feature of the kernel, as the engine's catalogue has it of each design and primitive that rests on it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Feature(BaseModel):
    """A feature of the kernel: the first Linux that has it (None: every one), and why it is not here."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    name: str
    since: str | None = None
    available: bool = True
    reason: str | None = None
