"""Words in braces that stand for values in commands, environments and templates."""

from __future__ import annotations

import re
from collections.abc import Mapping

HOST, PORT = "{host}", "{port}"
"""The address of the server."""
SECOND_PORT = "{second_port}"
"""Another free port, for a server that listens at two."""
DIR = "{dir}"
"""A new folder for each trial."""
WORKLOAD, BUILD = "{workload}", "{build}"
"""Placeholders that are the same for all trials: the workload, and the folder of what was built."""
RESERVED = frozenset(each.strip("{}") for each in (HOST, PORT, SECOND_PORT, DIR, WORKLOAD, BUILD))
"""Names of placeholders that are no settings, even if a load has a setting of that name."""


TEMPLATE = re.compile(r"[^/\s{}]+")
"""The NAME of a file of which `{dir}/NAME` is a copy. `{dir}/./NAME` is a file that the server makes."""
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def template_name(word: str) -> str | None:
    """Return the NAME of a word `...{dir}/NAME`; None if it has none."""
    name = word.rpartition(f"{DIR}/")[2] if f"{DIR}/" in word else ""
    return name if TEMPLATE.fullmatch(name) else None


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with a value for each placeholder. Values are not searched for placeholders."""
    return PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), text)
