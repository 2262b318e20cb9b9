"""Texts with lines that are other ones, or are missing."""

from __future__ import annotations

import random

WORDS = (
    "0", "-1", "1e400", "nan", "9" * 30, '""', '"\\u001b[31m"', "[]", "[[]]", "{}", "true", '"all"', "=", "'",
    '"../../etc/passwd"', '"/dev/zero"', "[1, 2", '"5s"', '"1TiB"', "{ a = { b = { c = 1 } } }", "1979-05-27",
    "\u202e", '"\\u0000"',
)  # fmt: skip
"""What takes the place of a value."""


def mutated(text: str, draw: random.Random) -> str:
    """Return a text with some lines changed, gone, twice, or elsewhere."""
    lines = text.splitlines()
    for _ in range(draw.randint(1, 3)):
        if not lines:
            return ""
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
    return "\n".join(lines) + "\n"
