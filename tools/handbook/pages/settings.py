"""Settings of entries, as the engine's registry has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handbook.markdown import plain, table

Setting = Mapping[str, Any]


def settings_table(settings: Sequence[Setting]) -> str:
    """A line for each: its name in studies, its option, what may be given, what stands where nothing is."""
    return table(
        ["setting", "option", "what it is", "takes", "if left out"],
        [
            [
                f"`{each['name']}`",
                f"`--{each['name'].replace('_', '-')}`",
                plain(each["help"]),
                allowed(each),
                f"`{shown(each['default'])}`",
            ]
            for each in settings
        ],
    )


def allowed(setting: Setting) -> str:
    """What may be given, in words."""
    match setting["kind"]:
        case "integer":
            unit = f" {setting['unit']}" if setting.get("unit") else ""
            return f"{setting['minimum']:,} to {setting['maximum']:,}{unit}"
        case "boolean":
            return "true or false"
        case "choice":
            return ", ".join(f"`{choice}`" for choice in setting["choices"])
        case "text":
            return f"a text of at most {setting['longest']:,} characters without spaces"
        case other:
            raise ValueError(
                f"a setting of the kind {other}, which no page knows; add it to handbook/pages/settings.py"
            )


def shown(value: object) -> str:
    """A value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)
