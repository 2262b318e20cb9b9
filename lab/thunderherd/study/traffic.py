"""Requests that differ from each other: distributions of sizes, mixes, and recorded traffic.

Paths of files begin at the study's folder. The content of the files belongs to the study: the resolved study
has its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue, Load, Setting, TextSetting
from thunderherd.engine.dry_run import complaint
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.engine.sizes import NONE, path_in, with_path
from thunderherd.errors import Problem
from thunderherd.study.file.contenders import Configuration
from thunderherd.toml.file import Problems, show

ARRIVALS, RECORDED, RECORDING, RATE = "arrivals", "recorded", "recording", "rate"

LARGEST_FILE = 100_000_000
"""The largest file in bytes: enough for the most rows that the engine accepts, in its longest lines."""


def settled(
    settings: Mapping[str, SettingValue],
    given: Mapping[str, Any],
    allowed: Mapping[str, Setting],
    workload: str,
    catalogue: Catalogue,
) -> dict[str, SettingValue]:
    """Return the settings of a load without those that others make meaningless."""
    gone = {other for name, other in _instead(workload, catalogue) if _is_given(settings, name, allowed)}
    if settings.get(ARRIVALS) == RECORDED and RATE not in given:
        gone.add(RATE)
    return {name: value for name, value in settings.items() if name not in gone}


def files_of(
    settings: Mapping[str, SettingValue], allowed: Mapping[str, Setting], folder: Path
) -> dict[str, Any]:
    """Return the fields of a `LoadPlan` about files: each file that a setting names, with its SHA-256.

    Files that cannot be read are left out; they are problems already.
    """
    found = {}
    for _, path in _paths(settings, allowed):
        try:
            found[path] = hashlib.sha256((folder / path).read_bytes()).hexdigest()
        except OSError:
            continue
    named = tuple(name for name, each in allowed.items() if _names_a_file(each))
    return {"files": found, "folder": folder, "named_files": named}


def check_traffic(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Check that the settings about requests do not contradict each other, and that their files exist."""
    given, load = each.load.settings, catalogue.load(each.load.kind)
    allowed = catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
    if load is None or any(not allowed[name].accepts(given[name]) for name in given if name in allowed):
        return
    for name, other in _instead(each.workload, catalogue):
        if _is_given(given, name, allowed) and other in given:
            key = problems.blame(each.where("load", "settings", other), each.where("load", "settings", name))
            problems.add(
                key,
                f"{name} = {show(given[name])} and {other} = {show(given[other])} contradict each other",
                code="study.contradicting_settings",
                hint="either sets the size of every request; leave one of them out",
            )
    is_recorded, file = given.get(ARRIVALS) == RECORDED, given.get(RECORDING, NONE) != NONE
    if ARRIVALS in allowed and is_recorded != file:
        place = each.where("load", "settings", ARRIVALS if is_recorded else RECORDING)
        lacks = f'{RECORDING} = "FILE"' if is_recorded else f'{ARRIVALS} = "{RECORDED}"'
        message = f"{RECORDING} and {ARRIVALS} = {show(RECORDED)} belong together"
        problems.add(place, message, code="study.incomplete_recording", hint=f"give {lacks} too")
    if is_recorded and each.load.processes > 1:
        problems.add(
            problems.blame(each.where("load", "processes"), each.where("load", "settings", ARRIVALS)),
            f"processes = {each.load.processes}: each would replay the recording at the same moments",
            code="study.recording_in_processes",
            hint="give processes = 1, and threads for more CPUs",
        )
    there = set(given)
    for name, path in _paths(given, allowed):
        if why := _why_not(problems.file.path.parent / path):
            place = each.where("load", "settings", name)
            message, hint = f"{name} = {show(given[name])}: {why}", "paths begin at the study's folder"
            problems.add(place, message, code="study.unreadable_file", hint=hint)
            there.discard(name)
    for name in sorted(there):
        if _is_given(given, name, allowed) and _is_read(allowed[name]):
            text, folder = str(given[name]), problems.file.path.parent
            if problem := _misread(name, text, folder, load, each.workload):
                shown = replace(problem, message=f"{name} = {show(text)}: {problem.message}")
                problems.add(each.where("load", "settings", name), shown)


def _misread(name: str, text: str, folder: Path, load: Load, workload: str) -> Problem | None:
    """The problem that the engine has with a text that it reads, its file included; None if there is none."""
    told: dict[str, SettingValue] = {name: with_path(text, folder)}
    if name == RECORDING:
        told[ARRIVALS] = RECORDED
    if load.duration and not load.requests:
        told[load.duration] = 1000
    path = path_in(text)
    return complaint(workload, load.name, told, () if path is None else (folder / path,))


def _instead(workload: str, catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    protocol = catalogue.workload(workload)
    for each in protocol.instead if protocol else ():
        yield each.given, each.of


def _is_given(settings: Mapping[str, Any], name: str, allowed: Mapping[str, Setting]) -> bool:
    return name in settings and name in allowed and settings[name] != allowed[name].default


def _names_a_file(setting: Setting) -> bool:
    return isinstance(setting, TextSetting) and setting.form in ("file", "sizes")


def _is_read(setting: Setting) -> bool:
    return isinstance(setting, TextSetting) and setting.form != "plain"


def _paths(settings: Mapping[str, Any], allowed: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if name in allowed and _names_a_file(allowed[name]) and (path := path_in(str(value))) is not None:
            yield name, path


def _why_not(path: Path) -> str | None:
    """Return why a file cannot be read; None if it can."""
    if not path.is_file():
        return f"there is no file {path}"
    try:
        size = path.stat().st_size
        path.open("rb").close()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return f"{path} has {size} bytes, more than {LARGEST_FILE}" if size > LARGEST_FILE else None
