"""The form of a study file. A wrong file is mended, so that all its problems can be found at once."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from thunderherd.study.file.tables import StudyForm
from thunderherd.toml.file import KeyPath, Problems, field_at, formed


def shaped(data: dict[str, Any], problems: Problems) -> tuple[StudyForm, dict[str, Any], bool]:
    """Return the form of a file, its data, and whether nothing had to be mended.

    Each wrong key becomes a problem. It is then left out or filled in, so that the rest can be checked too.
    If nothing sensible remains, the problems are raised.
    """
    form, wrong = formed(StudyForm, data, problems)
    if form is not None:
        return form, data, True
    problems.settled.update(wrong)
    mended, silent = deepcopy(data), Problems(problems.file)
    # A key that is left out may be required, and a table that is filled in lacks keys. So repeat.
    for _ in range(4):
        if form is not None:
            return form, mended, False
        for key in sorted(wrong, key=lambda key: [str(part).zfill(6) for part in key], reverse=True):
            if not _mend(mended, key):
                problems.raise_any()
        form, wrong = formed(StudyForm, mended, silent)
        problems.settled.update(wrong)
    problems.raise_any()
    raise AssertionError("unreachable: there was a problem")


def _mend(data: dict[str, Any], key: KeyPath) -> bool:
    """Remove a wrong key, or fill in a missing one; return False if neither makes sense."""
    here: Any = data
    for part in key[:-1]:
        here = here[part]
    present = not isinstance(here, dict) or key[-1] in here
    # Other keys refer to contenders and sweeps by name and position, so neither may be changed.
    if key[0] in ("contenders", "sweeps") and (
        len(key) <= 2 or key[-1] == "name" or isinstance(key[-1], int)
    ):
        return False
    if present:
        del here[key[-1]]
        return True
    field = field_at(StudyForm, key)
    kind = field.annotation if field else None
    fillings: dict[Any, Any] = {str: "x", int: 1}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fillings[kind] = {}
    if kind not in fillings:
        return False
    here[key[-1]] = fillings[kind]
    return True
