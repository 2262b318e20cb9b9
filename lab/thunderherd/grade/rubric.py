"""The rubric of an assignment: points by case, and points by cost, in a small TOML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from thunderherd.engine.conform_lines import ConformCase
from thunderherd.errors import Problem, UserError
from thunderherd.toml.file import KeyPath, Problems, TomlFile, formed
from thunderherd.toml.quantities import TIME
from thunderherd.toml.strict import StrictTable, quantity_text

__all__ = ["Rubric", "Step", "bundled_text", "load_rubric"]

BUNDLED = "rubric.toml"


Points = Annotated[float, Field(ge=0, le=10_000)]


class ConformancePoints(StrictTable):
    """The points of the cases."""

    points_per_case: Points = Field(4, description="points of each case that the server passes, from 0 on")
    share_if_warned: float = Field(
        0.5, ge=0, le=1, description="share of a case's points that a warning leaves, 0 to 1"
    )
    points: dict[str, Points] = Field(
        {}, description="points of single cases, from 0 on, such as 6 = 10; a case with 0 is not run"
    )


class Step(StrictTable):
    """The points of a server that costs at most so much."""

    at_most: float = Field(gt=0, le=1000, description="cost over that of the reference, such as 1.25")
    points: Points = Field(description="points up to that cost, from 0 on")


class CostPoints(StrictTable):
    """The points of the cost, and how it is measured."""

    needs: list[int] = Field([1], description="numbers of the cases without which the cost is not measured")
    budget: Annotated[str, quantity_text(TIME, TIME.units["s"], 24 * TIME.units["h"])] = Field(
        "60s", description='time for the measurement, such as "60s"'
    )
    steps: list[Step] = Field(
        [], description="steps from the cheapest to the dearest, each with fewer points"
    )
    load: dict[str, str | int | bool] = Field(
        {}, description='settings of the load, such as clients = 8 or bytes = "4KiB"'
    )


class Rubric(StrictTable):
    """A whole rubric."""

    visibility: Literal["visible", "hidden", "after_due_date", "after_published"] = Field(
        "visible", description="who sees the results on Gradescope, and when"
    )
    conformance: ConformancePoints = Field(default_factory=lambda: ConformancePoints.model_validate({}))
    cost: CostPoints = Field(default_factory=lambda: CostPoints.model_validate({}))

    def points_of(self, case: int) -> float:
        """Return the points of a case."""
        return self.conformance.points.get(str(case), self.conformance.points_per_case)

    @property
    def most_for_cost(self) -> float:
        """The most points of the cost; 0 if it is not measured."""
        return self.cost.steps[0].points if self.cost.steps else 0.0

    def points_for(self, at_least: float) -> float:
        """Return the points of a cost ratio, of which the lower end of the interval is known."""
        return next((step.points for step in self.cost.steps if at_least <= step.at_most), 0.0)


@dataclass(frozen=True)
class RubricFile:
    """A rubric with its file."""

    rubric: Rubric
    file: TomlFile

    def cases(self, known: Sequence[ConformCase]) -> list[int]:
        """Return the numbers of the cases that count, of those of a workload.

        Raise `UserError` for a number that the workload has not, and for a rubric without any points.
        """
        problems = Problems(self.file)
        numbers = [each.number for each in known]
        hint = f"known: {', '.join(map(str, numbers))}"
        named: list[tuple[KeyPath, str]] = [
            (("conformance", "points", number), number) for number in self.rubric.conformance.points
        ]
        named += [(("cost", "needs", at), str(number)) for at, number in enumerate(self.rubric.cost.needs)]
        for key, number in named:
            if number not in map(str, numbers):
                problems.add(key, f"no case {number}", code="rubric.unknown_case", hint=hint)
        counted = [each for each in numbers if self.rubric.points_of(each) > 0]
        if not counted and not self.rubric.most_for_cost:
            problems.add(
                (), "no points", code="rubric.no_points", hint="give points_per_case or [[cost.steps]]"
            )
        problems.raise_any()
        return counted

    def blamed(self, error: UserError) -> UserError:
        """Return a mistake in the options of the comparison as one of the keys that stand for them."""
        return UserError(*map(self._blamed, error.problems))

    def _blamed(self, problem: Problem) -> Problem:
        _, _, option = problem.where.partition(": --")
        name = option.partition(" ")[0].replace("-", "_")
        keys = {each.replace("-", "_"): each for each in self.rubric.cost.load}
        if name == "budget":
            hint = problem.hint.replace("--budget ", "budget = ")
            return Problem(problem.message, problem.code, hint, self.file.where(("cost", "budget")))
        if name in keys:
            return problem.at(self.file.where(("cost", "load", keys[name])))
        return problem


def bundled_text() -> str:
    """Return the text of the bundled rubric."""
    return (resources.files("thunderherd.grade") / BUNDLED).read_text(encoding="utf-8")


def load_rubric(path: Path | None) -> RubricFile:
    """Load a rubric, the bundled one by default; raise one `UserError` with all of its mistakes."""
    file = TomlFile(path or Path(BUNDLED), None if path else bundled_text(), "rubric")
    problems = Problems(file)
    rubric, _ = formed(Rubric, file.data, problems)
    for at, (step, after) in enumerate(pairwise(rubric.cost.steps if rubric else [])):
        if after.at_most <= step.at_most or after.points >= step.points:
            problems.add(
                ("cost", "steps", at + 1),
                f"a step to {after.at_most:g} with {after.points:g} points follows one to {step.at_most:g} "
                f"with {step.points:g}",
                code="rubric.steps_out_of_order",
                hint="order the steps by at_most, each with fewer points than the one before",
            )
    problems.raise_any()
    assert rubric is not None, "a rubric without problems is formed"
    return RubricFile(rubric, file)
