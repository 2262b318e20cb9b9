"""Tables of settings, from the engine's registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handbook.markdown import plain, table
from thunderherd.toml.quantities import quantity_of

Setting = Mapping[str, Any]


def settings_table(settings: Sequence[Setting]) -> str:
    """Write a table of settings: name in studies, option, meaning, values and default."""
    return table(
        ["setting", "option", "meaning", "values", "default"],
        [
            [
                f"`{each['name']}`",
                f"`--{each['name'].replace('_', '-')}`",
                plain(each["help"]),
                allowed(each),
                f"`{default(each)}`",
            ]
            for each in settings
        ],
    )


def allowed(setting: Setting) -> str:
    """Return the allowed values of a setting, in words."""
    match setting["kind"]:
        case "integer":
            unit = setting.get("unit") or ""
            return quantity_of(unit).between(setting["minimum"], setting["maximum"], unit)
        case "boolean":
            return "true or false"
        case "choice":
            return ", ".join(f"`{choice}`" for choice in setting["choices"])
        case "text" if setting["form"] == "free":
            return f"text of at most {setting['longest']:,} bytes"
        case "text":
            return f"text of at most {setting['longest']:,} characters without spaces"
        case other:
            raise ValueError(f"unknown kind of setting: {other}; add it to handbook/pages/settings.py")


def default(setting: Setting) -> str:
    """Return the default of a setting as a user types it."""
    value = setting["default"]
    if setting["kind"] == "integer":
        return quantity_of(setting.get("unit")).write(value)
    return str(value).lower() if isinstance(value, bool) else str(value) or "''"
