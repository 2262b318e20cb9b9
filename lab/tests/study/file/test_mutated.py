"""Studies that somebody has damaged: each is loaded, or refused with problems that have codes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from thunderherd import studies
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.study.loading import load_study

FOLDER = Path(studies.__file__).parent
MUTANTS = 40
"""For each study."""
WORDS = (
    "0", "-1", "1e400", "nan", "9" * 30, '""', '"\\u001b[31m"', "[]", "[[]]", "{}", "true", '"all"', "=", "'",
    '"../../etc/passwd"', '"/dev/zero"', "[1, 2", '"5s"', '"1TiB"', "{ a = { b = { c = 1 } } }", "1979-05-27",
    "\u202e",
)  # fmt: skip
"""What takes the place of a value."""


def mutated(text: str, draw: random.Random) -> str:
    """Return a study with some lines changed, gone, twice, or elsewhere."""
    lines = text.splitlines()
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(lines))
        line = lines[place]
        kind = draw.randrange(5)
        if kind == 0:
            del lines[place]
        elif kind == 1:
            lines.insert(draw.randrange(len(lines)), line)
        elif kind == 2 and "=" in line:
            lines[place] = f"{line.partition('=')[0]}= {draw.choice(WORDS)}"
        elif kind == 3 and line:
            at = draw.randrange(len(line))
            lines[place] = line[:at] + draw.choice(WORDS) + line[at + draw.randrange(1, 4) :]
        else:
            lines[place] = draw.choice(WORDS)
        if not lines:
            return ""
    return "\n".join(lines) + "\n"


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "name", ["unp-ch30", "cse232-a2", "cse638-pa02", "erss-hw4", "css503-p4", "open-loop"]
)
def test_a_damaged_study_is_loaded_or_refused(
    name: str,
    some_catalogue: Catalogue,
    tmp_path: Path,
    draws: Callable[[int], Iterator[random.Random]],
) -> None:
    (path,) = FOLDER.rglob(f"{name}.toml")
    for each in path.parent.iterdir():
        if each.is_file() and each.suffix in (".csv", ".toml"):
            shutil.copy2(each, tmp_path)
    text = path.read_text()
    for draw in draws(MUTANTS):
        mutant = mutated(text, draw)
        (tmp_path / path.name).write_text(mutant, encoding="utf-8", errors="surrogatepass")
        try:
            load_study(str(tmp_path / path.name), "quick", (), some_catalogue)
        except UserError as error:
            assert all(error.codes), f"{error}\n{mutant}"
