"""Bytes, some of which are others, or are missing."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from made.damage.corpus import kept


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return bytes of which some are changed, inserted, gone or repeated."""
    found = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        place, length = draw.randrange(len(found) + 1), draw.randint(1, 16)
        kind = draw.randrange(5)
        if kind == 0:
            found[place : place + 1] = draw.randbytes(1)
        elif kind == 1:
            found[place:place] = draw.randbytes(length)
        elif kind == 2:
            del found[place : place + length]
        elif kind == 3:
            del found[place:]
        else:
            found[place:place] = found[place : place + length]
    return bytes(found)


def damages(kind: str, draws: Iterable[random.Random]) -> Iterator[bytes]:
    """Yield the kept inputs of a kind, and others made of them."""
    seeds = kept(kind)
    yield from seeds
    for draw in draws:
        yield damaged(draw.choice(seeds), draw)
