"""Files with requests of a load: distributions of sizes, and recorded traffic.

Paths of files begin at the study's folder. The content of the files belongs to the study: the resolved study
has its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue, Setting, TextSetting
from thunderherd.engine.places.place import LARGEST_FILE
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.files import read_bytes
from thunderherd.hosts.addresses import LOAD
from thunderherd.study.file.contenders import Configuration
from thunderherd.toml.file import Problems, show


def files_of(
    settings: Mapping[str, SettingValue], allowed: Mapping[str, Setting], folder: Path, prefix: str
) -> dict[str, Any]:
    """Return the fields of a `LoadPlan` about files: each file that a setting names, with its SHA-256.

    Files that cannot be read are left out; the engine refuses them.
    """
    named = dict(_paths(settings, allowed, prefix))
    found = {}
    for path in named.values():
        if (folder / path).is_file() and not _is_too_large(folder / path):
            try:
                found[path] = hashlib.sha256(read_bytes(folder / path)).hexdigest()
            except OSError:
                continue
    return {"files": found, "folder": folder, "named_files": named}


def check_files(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Check that the files of a load are not too large, and that only one process replays a recording."""
    given, folder = each.load.settings, problems.file.path.parent
    allowed = catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
    for name, path in _paths(given, allowed, catalogue.file_prefix):
        place, setting = each.where("load", "settings", name), allowed[name]
        if _is_too_large(folder / path):
            size = (folder / path).stat().st_size
            message = f"{name} = {show(given[name])}: the file has {size} bytes"
            hint = f"allowed: at most {LARGEST_FILE}"
            problems.add(place, message, code="study.file_too_large", hint=hint)
        several = next(_several_processes(each), None)
        if several and isinstance(setting, TextSetting) and setting.form == "file":
            key, processes, hint = several
            problems.add(
                problems.blame(each.where(*key), place),
                f"{processes}: each would replay the recording at the same moments",
                code="study.recording_in_processes",
                hint=hint,
            )


def _several_processes(each: Configuration) -> Iterator[tuple[tuple[str, str], str, str]]:
    """Yield each key that makes a load several processes, what it says, and how to have one."""
    if (number := each.load.processes) > 1:
        yield ("load", "processes"), f"processes = {number}", "give processes = 1, and threads for more CPUs"
    if (number := len(each.lab.load or ())) > 1:
        yield ("lab", LOAD), f"{LOAD} names {number} hosts", "leave all hosts of the load but one out"


def _paths(
    settings: Mapping[str, Any], allowed: Mapping[str, Setting], prefix: str
) -> Iterator[tuple[str, str]]:
    """Yield the settings that name a file, each with the path as written."""
    for name, value in settings.items():
        setting = allowed.get(name)
        if not isinstance(setting, TextSetting) or not setting.accepts(value):
            continue
        if (path := setting.path_in(value, prefix)) is not None:
            yield name, path


def _is_too_large(path: Path) -> bool:
    try:
        return path.stat().st_size > LARGEST_FILE
    except OSError:
        return False
