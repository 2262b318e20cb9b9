"""Replays a capsule: computes every verdict again from its trials, or measures again with the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thunderherd.capsule.verdicts import Compared, compared, named_figures, named_verdicts
from thunderherd.errors import UserError
from thunderherd.judge.summary.open_claims import for_claims
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.directory import ANOTHER, RunInfo, SavedRun, is_begun, load
from thunderherd.run.follow import Followed
from thunderherd.run.recordings import FOLDER, STUDY_FOLDER

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary
    from thunderherd.study.loading import Study

__all__ = ["commands_in", "measured_again", "recomputed", "study_file"]


def study_file(directory: Path, info: RunInfo) -> Path | None:
    """Return the study's file in an unpacked capsule; None if a run of an older version lacks it."""
    folder, name = directory / STUDY_FOLDER, str(info.study.get("name", ""))
    found = [path for path in folder.glob("*.toml") if path.is_file()] if folder.is_dir() else []
    own = [path for path in found if _named(path) == name]
    return own[0] if own else None


def _named(path: Path) -> str | None:
    import tomllib

    try:
        return str(tomllib.loads(path.read_text(encoding="utf-8")).get("name"))
    except (OSError, ValueError, RecursionError):
        return None


def recomputed(directory: Path) -> tuple[SavedRun, list[Compared]]:
    """Return an unpacked run, and its verdicts and figures as saved and as computed again from its trials."""
    saved = load(directory)
    if saved.summary is None:
        raise UserError(
            "the capsule has no summary", code="replay.no_summary", where=str(directory), hint="pack it again"
        )
    study = _as_recorded(directory, saved)
    summary = summarise(study, list(saved.trials), saved.run.machine, seed=saved.run.seed)
    before, now = ({**named_verdicts(each), **named_figures(each)} for each in (saved.summary, summary))
    return saved, compared(before, now)


def _as_recorded(directory: Path, saved: SavedRun) -> Study:
    """Return the study as it was resolved on the machine that measured, with its claims."""
    study = Followed(directory).study
    file = study_file(directory, saved.run)
    claims = _claims_of(file) if file else None
    assert saved.summary is not None
    if saved.summary.claims and claims is None:
        raise UserError(
            "the capsule lacks the claims of its study",
            code="replay.no_claims",
            hint="the run kept no study; pack another run",
            where=str(directory),
        )
    found = study.model_copy(update={"claims_path": claims, "path": file or study.path})
    return for_claims(found)


def _claims_of(file: Path) -> Path | None:
    import tomllib

    name = tomllib.loads(file.read_text(encoding="utf-8")).get("claims")
    path = file.parent / str(name)
    return path if isinstance(name, str) and path.name == name and path.is_file() else None


def commands_in(study: Study) -> list[Sequence[str]]:
    """Return the commands that a study would run, and the running servers that it would load."""
    programs = [
        program
        for each in study.contenders
        for program in (each.own_server, each.load.generator)
        if program is not None
    ]
    found = [words for each in programs for words in (each.build, each.version, each.command) if words]
    found += [(each.url,) for each in programs if each.url]
    return list(dict.fromkeys(found))


def measured_again(
    directory: Path, out: Path, command: Sequence[str], *, allow_commands: bool, with_out: bool = True
) -> tuple[Summary, SavedRun, list[Compared]]:
    """Run the study of an unpacked capsule here with its seed; return the verdicts of both runs.

    `with_out` is whether `out` was typed.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.run.runner import again, run_study
    from thunderherd.study.loading import load_study

    if is_begun(out):
        # A run would advise --resume, which `replay` does not have.
        raise UserError(
            "the directory already has a run", code="run.directory_taken", hint=ANOTHER, where=str(out)
        )
    saved = load(directory)
    file = study_file(directory, saved.run)
    if file is None or saved.summary is None:
        raise UserError(
            "the capsule lacks its study, so it cannot be measured again",
            code="replay.no_study",
            hint="the run kept no study; pack another run",
            where=str(directory),
        )
    _put_recordings_back(directory, file.parent)
    size = str(saved.run.study.get("size", "quick"))
    study = load_study(str(file), size, saved.run.overrides, catalogue())
    hint = f"read {STUDY_FOLDER}/{file.name} in the capsule; then give --allow-commands"
    commands, hosts = commands_in(study), study.hosts
    if commands and not allow_commands:
        raise UserError(
            f"the capsule's study runs a command or loads a server: {' '.join(commands[0])}",
            code="replay.commands_not_allowed",
            hint=hint,
            where="replay",
        )
    if hosts and not allow_commands:
        raise UserError(
            f"the capsule's study measures on hosts: {', '.join(hosts)}",
            code="replay.hosts_not_allowed",
            hint=hint,
            where="replay",
        )
    _check_files(study, directory)
    # The unpacked study is gone when the command has ended, so the run cannot be resumed.
    go_on = again(with_out=with_out)
    summary = run_study(
        for_claims(study),
        out,
        seed=saved.run.seed,
        command=command,
        go_on=go_on,
        allow_commands=allow_commands,
    )
    return summary, saved, compared(named_verdicts(saved.summary), named_verdicts(summary))


def _check_files(study: Study, directory: Path) -> None:
    """Refuse a study that reads files of this machine: a load would send them, and the run keep them."""
    for each in study.contenders:
        for name, path in each.load.named_files.items():
            if directory.resolve() not in (each.load.folder / path).resolve().parents:
                raise UserError(
                    f"{name} names a file outside of the capsule: {path}",
                    code="replay.file_outside",
                    hint="replay without --measure computes its figures again",
                    where="replay",
                )


def _put_recordings_back(directory: Path, folder: Path) -> None:
    """Copy the files that loads replay to where the study names them, below the study's folder."""
    named: dict[str, str] = {}
    for each in Followed(directory).study.contenders:
        named |= each.load.files
    for name, digest in named.items():
        path = Path(name)
        kept = directory / FOLDER / f"{path.stem}-{digest[:12]}{path.suffix}"
        try:
            target = (folder / path).resolve()
            is_kept = kept.parent == directory / FOLDER and kept.is_file()
            if is_kept and folder.resolve() in target.parents and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(kept.read_bytes())
        except (OSError, ValueError):
            # No file can have such a name. If the study names it, too, the study is refused.
            continue
