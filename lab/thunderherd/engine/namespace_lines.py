"""The engine's line about a pair of network namespaces; what all lines have in common: `engine_lines`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from thunderherd.engine.lines import EngineLine, SchemaNumber


class NamespaceEnd(EngineLine):
    """One of two network namespaces, with its end of the pair of interfaces between them."""

    path: str = Field(description="how a process enters it, for as long as it is held")
    interface: str
    mtu: int = Field(description="as the kernel has it")
    address: str
    address6: str | None = None
    sysctls: dict[str, str | None] = Field(
        default_factory=dict, description="kernel settings of its own; null: it has none of that name"
    )


class Namespaces(EngineLine):
    """Two network namespaces, which live as long as the process `pid`, which is in the clients'."""

    line: Literal["namespaces"] = "namespaces"
    schema_version: SchemaNumber = Field(alias="schema")
    pid: int
    user_namespace: bool = Field(description="whoever made them is not root, and is so in there alone")
    settings: dict[str, int]
    server: NamespaceEnd
    client: NamespaceEnd
    without_ipv6: str | None = Field(default=None, description="why the ends have no IPv6 addresses")

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)
