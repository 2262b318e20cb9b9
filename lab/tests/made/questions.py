"""Claims files: one whose questions load, and mistakes, each of which is refused at its line."""

from __future__ import annotations

from pathlib import Path

from made.refusals import refused
from thunderherd.claims.claim_file import load_source
from thunderherd.errors import Problem
from thunderherd.study.loading import Study

GOOD = """\
study = "unp-ch30"
source = "unp-ch30"

[[questions]]
id = "Q1"
text = "Is a pool larger than the number of clients worth it?"
note = "slide 24"
metric = "server_cpu_per_connection"
answer = [
    "For {clients} clients: {small} with {fewest} workers, {large} with 120, {times}.",
    "The larger pool's CPU {more} that of the smaller; the least was seen with {best} workers {{of 120}}.",
    "The other way round it {less} it.",
]

[questions.figures]
small = { weights = { "prefork@pool_size=10" = 1 } }
large = { weights = { "prefork@pool_size=120" = 1 } }
times = { weights = { "prefork@pool_size=120" = 1 }, over = { "prefork@pool_size=10" = 1 } }

[questions.verdicts]
more = { weights = { "prefork@pool_size=120" = 1, "prefork@pool_size=10" = -1 } }
less = { weights = { "prefork@pool_size=10" = 1, "prefork@pool_size=120" = -1 }, below = "is below" }

[questions.best]
best = { base = "prefork_mutex", sweep = "pool_size" }

[questions.given]
clients = { contender = "prefork@pool_size=10", key = "load.processes", times = "load.settings.children" }
fewest = { contender = "prefork@pool_size=10", key = "settings.pool", plus = 1 }
"""


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
