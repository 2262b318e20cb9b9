"""Mistakes in claims files: each is refused with its code, at its line."""

from __future__ import annotations

from pathlib import Path

from made.refusals import refused
from thunderherd.errors import Problem
from thunderherd.judge.claims.claim_file import load_source
from thunderherd.study.loading import Study


def with_claims(study: Study, directory: Path, text: str) -> Study:
    """The study with a claims file of this text."""
    path = directory / "claims.toml"
    path.write_text(text)
    return study.model_copy(update={"claims_path": path})


def check_mistake(
    study: Study, good: str, change: tuple[str, str], line: int, code: str, offers: str
) -> None:
    """Makes one change to the good text of `study`'s file, which must be refused at a line.

    `offers` is a name or value that the refusal must contain; an empty `code` stands for any.
    """
    old, new = change
    assert study.claims_path is not None and good.count(old) == 1
    study.claims_path.write_text(good.replace(old, new))
    found = refused(load_source, study)

    def is_it(problem: Problem) -> bool:
        here = f"claims.toml:{line}" == Path(problem.where).name
        return here and code in ("", problem.code) and offers in str(problem)

    assert any(map(is_it, found)), found
