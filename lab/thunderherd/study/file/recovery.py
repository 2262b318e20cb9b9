"""The form of a study file; where the file is wrong, what remains of it, so that all its mistakes come at
once."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from thunderherd.study.file.tables import StudyForm
from thunderherd.toml.file import KeyPath, Problems, field_at, formed


def shaped(data: dict[str, Any], problems: Problems) -> tuple[StudyForm, dict[str, Any], bool]:
    """The form of a file, its data, and whether nothing had to be mended for that.

    What is wrong by itself is noted, then left out or filled in, so that the rest can be checked in the same
    run; where nothing sensible remains the problems are raised.
    """
    form, wrong = formed(StudyForm, data, problems)
    if form is not None:
        return form, data, True
    problems.settled.update(wrong)
    mended, silent = deepcopy(data), Problems(problems.file)
    # Leaving a key out may make it missing, and a table that is filled in has keys that are missing.
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
    """Leaves a wrong key out, or fills a missing one in; False where neither makes sense."""
    here: Any = data
    for part in key[:-1]:
        here = here[part]
    present = not isinstance(here, dict) or key[-1] in here
    # Without its name, or moved up by another's absence, a contender is not the one that other keys mean.
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
