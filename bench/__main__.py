"""Benchmarks: `make bench`, or `.venv/bin/python bench PART [options]` for one part.

docs/methodology/benchmarks.md describes how they measure, and why all but `textbook` and `linking` are no
studies. Of the parts, `proofs`, `kills`, `twins`, `soak`, `endurance` and `scale` can fail; all others print
figures. Do not compare figures of different runs or machines.
"""

from __future__ import annotations

import argparse
import sys

import counting
import endurance
import gating
import kills
import layers
import linking
import proofs
import reach
import scale
import soak
import textbook
import twins
from common import duration, two_places, unavailable_designs
from thunderherd.engine.client import EngineError
from thunderherd.errors import UserError

PARTS = {
    "reach": reach,
    "counting": counting,
    "layers": layers,
    "proofs": proofs,
    "textbook": textbook,
    "linking": linking,
    "scale": scale,
    "gate": gating,
    "kills": kills,
    "twins": twins,
    "soak": soak,
    "endurance": endurance,
}


BY_NAME = ("kills", "twins", "soak", "endurance")
"""The parts that run only if they are named: they judge, and print no figures of this machine."""


def main() -> None:
    """Run the parts that the command line names; exit with 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    usual = f"default: all but {', '.join(BY_NAME)}"
    parts = parser.add_subparsers(dest="part", metavar="PART", help=usual)
    for name, part in PARTS.items():
        part.options(parts.add_parser(name, help=about(name), description=part.__doc__))
    given = parser.parse_args()
    if given.part in PARTS:
        chosen = {given.part: given}
    else:
        chosen = {name: parser.parse_args([name]) for name in PARTS if name not in BY_NAME}
    try:
        announce(chosen)
    except UserError as error:
        sys.exit(f"bench: {error}")
    failed = False
    for name, each in chosen.items():
        print(f"\n==> {name}: {about(name)}\n", flush=True)
        try:
            PARTS[name].run(each)
        except (EngineError, UserError) as error:
            print(f"bench: {name}: {error}", file=sys.stderr)
            failed = True
    sys.exit(failed)


def announce(chosen: dict[str, argparse.Namespace]) -> None:
    """Print the expected duration and what is missing. Raises `UserError` if nothing can be measured."""
    two_places()
    seconds = {name: PARTS[name].seconds(each) for name, each in chosen.items()}
    lengths = ", ".join(f"{name} {duration(length)}" for name, length in seconds.items())
    total = duration(sum(seconds.values()))
    print(f"bench: about {total} ({lengths}), more on a busy machine", flush=True)
    for reason in unavailable_designs():
        print(f"bench: missing: {reason}")


def about(name: str) -> str:
    """Return the first line of a part's docstring."""
    return (PARTS[name].__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    main()
