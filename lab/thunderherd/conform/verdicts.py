"""Verdicts on a server, from the cases that any server of its workload must pass.

A server that this run started is started again after a case that failed, so that each case meets a server
that works.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from thunderherd.conform.server import Subject
from thunderherd.engine.conform_lines import Conformed
from thunderherd.engine.conformance import Conforming, cases_of
from thunderherd.errors import UserError

__all__ = ["Conformance", "conformance"]


@dataclass(frozen=True)
class Conformance:
    """The verdicts of all cases of a server, by number."""

    subject: Subject
    seed: int
    cases: tuple[Conformed, ...]
    plain: bool = False

    def of(self, *verdicts: str) -> list[Conformed]:
        """Return the cases with one of these verdicts."""
        return [each for each in self.cases if each.verdict in verdicts]

    @property
    def failed(self) -> list[Conformed]:
        """The cases of which the server broke a rule that it must keep."""
        return self.of("failed")

    def replay(self, case: Conformed) -> str:
        """Return the command that runs a case again with the same inputs."""
        workload = "" if self.subject.kind == "url" else f" --workload {self.subject.workload}"
        typed = shlex.quote(self.subject.typed)
        path = f" --path {shlex.quote(self.subject.path or '')}" if self._names_path else ""
        plain = " --plain" if self.plain else ""
        return f"thunderherd conform {typed}{workload}{path} --case {case.number} --seed {self.seed}{plain}"

    @property
    def _names_path(self) -> bool:
        return self.subject.kind != "url" and self.subject.path not in (None, "/")


@dataclass
class _Run:
    """The cases that are left, and those that were run."""

    left: list[int]
    cases: list[Conformed] = field(default_factory=list)


def conformance(
    server: Subject,
    *,
    numbers: Sequence[int] = (),
    seed: int = 1,
    patience: float = 5.0,
    plain: bool = False,
    any_status: bool = False,
) -> Conformance:
    """Run the cases of these numbers (default: all) against a server. Main thread only.

    With `plain`, they send only the plainest requests, as loads do. With `any_status`, too, a right reply may
    have any status but 400 and those of class 5, since the load judges statuses.

    Raise `UserError` for a number that the workload has not, and `EngineError` if the server does not start.
    """
    known = [each.number for each in cases_of(server.workload)]
    for number in numbers:
        if number not in known:
            hint = f"known: {', '.join(map(str, known))}"
            message = f"workload {server.workload} has no case {number}"
            raise UserError(message, code="conform.unknown_case", hint=hint, where="conform")
    conforming = Conforming(server.workload, server.path, seed, patience, plain, any_status)
    run = _Run([*(dict.fromkeys(numbers) or known)])
    while run.left:
        _run_until_failure(run, server, conforming)
    return Conformance(server, seed, tuple(sorted(run.cases, key=lambda each: each.number)), plain)


def _run_until_failure(run: _Run, subject: Subject, conforming: Conforming) -> None:
    """Start the server, and run the cases that are left until one fails."""
    with subject.started() as server:

        def stop() -> str | None:
            summary = server.stop()
            return summary.died if summary else None

        lines = conforming.run(
            server.ready.address,
            [*run.left],
            place=subject.place,
            stop=stop if subject.is_started else None,
            until_failure=subject.is_started,
        )
        for line in lines:
            died = server.death() if line.verdict == "failed" and subject.is_started else None
            run.cases.append(_of_dead(line, died) if died else line)
            run.left.remove(line.number)


def _of_dead(line: Conformed, died: str) -> Conformed:
    """Return the line of a case in which the server died: how, and after which request."""
    after = f"after the request {line.request}, " if line.request else ""
    return line.model_copy(update={"actual": f"{after}{' '.join(died.split())}"})
