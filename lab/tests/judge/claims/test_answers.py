"""Questions: answers are filled from the run and follow its verdicts, and each sentence has a figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made.questions import GOOD, check_mistake, with_claims
from made.summaries import sweeps as synthetic_sweeps
from made.summaries.values import values

from thunderherd.claims.claim_file import load_questions
from thunderherd.judge.claims.answers import NOT_JUDGED, answers
from thunderherd.judge.claims.claims import judged_after
from thunderherd.records.summary import QuestionSummary
from thunderherd.study.loading import Study

Golden = Callable[[str, str], None]


def study(directory: Path, text: str = GOOD) -> Study:
    return with_claims(synthetic_sweeps.study(), directory, text)


def answered(of: Study) -> QuestionSummary:
    return answers(of, values(of))[0]


def listed(sentence: str) -> list[str]:
    """Return the points in brackets of a sentence about the best one."""
    return sentence.partition(": ")[2].partition(")")[0].split(", ")


def test_sentences_are_filled_from_the_run(tmp_path: Path) -> None:
    found = answered(study(tmp_path))
    first, second, third = found.answer
    assert first.startswith("For 10 clients: 0.25")
    assert " s per 5,000 connections (0.25" in first
    assert " with 11 workers, 0.3" in first, "a given may have something added"
    assert " with 120, 1.2" in first and " times (1." in first
    more = load_questions(study(tmp_path))[0].verdicts["more"]
    assert f" {more.above} " in second and second.endswith(" workers {of 120}.")
    assert set(listed(second)) < set(map(str, synthetic_sweeps.POOLS)), "points that are not separated"
    assert " is below " in third
    assert found.note == "slide 24"
    outcomes = {each["name"]: each.get("outcome") for each in found.figures}
    assert outcomes == {"small": None, "large": None, "times": None, "more": "above", "less": "below"}


def test_words_follow_the_verdict_of_the_run(tmp_path: Path) -> None:
    of = study(tmp_path)
    turned = values(of)
    cpu = turned["server_cpu_per_connection"]
    cpu["prefork@pool_size=10"], cpu["prefork@pool_size=120"] = (
        cpu["prefork@pool_size=120"],
        cpu["prefork@pool_size=10"],
    )
    words = load_questions(of)[0].verdicts["more"]
    assert f" {words.below} " in answers(of, turned)[0].answer[1]
    cpu["prefork@pool_size=10"] = cpu["prefork@pool_size=120"]
    assert f" {words.open} " in answers(of, turned)[0].answer[1]


TURN = """
[[questions]]
id = "Q2"
text = "From how many on?"
metric = "server_cpu_per_connection"
answer = ["The verdict changes {turn}."]
[questions.turns]
turn = { sweep = "pool_size", base = "prefork", against = "prefork_file_lock" }
"""


def test_turn_is_found_between_neighbouring_points(tmp_path: Path, golden: Golden) -> None:
    of = study(tmp_path, GOOD + TURN)
    shaped = values(of)
    cpu = shaped["server_cpu_per_connection"]

    def differ(point: str, by: float) -> None:
        base = cpu[f"prefork_file_lock@pool_size={point}"]
        cpu[f"prefork@pool_size={point}"] = [value + by for value in base]

    for point in ("5", "10", "15"):
        differ(point, 0.1)
    for point in ("30", "60", "120"):
        differ(point, -0.1)
    found = answers(of, shaped)[1]
    said = [*found.answer]
    assert [(each["name"], each["outcome"]) for each in found.figures][2:4] == [
        ("turn=15", "above"),
        ("turn=30", "below"),
    ]
    more = next(each for each in answers(of, shaped)[0].figures if each["name"] == "more")
    assert more["p_adjusted"] == pytest.approx(8 * 2 * more["p_less"]), "its points are in the family"
    differ("30", 0.0)
    said += answers(of, shaped)[1].answer
    for point in ("5", "10", "15", "30"):
        differ(point, -0.1)
    said += answers(of, shaped)[1].answer
    repeated = of.model_copy(update={"repetitions": 3})
    assert NOT_JUDGED in answers(repeated, shaped)[1].answer[0]
    golden("judge-turns.txt", "\n".join(said) + "\n")


@pytest.mark.parametrize(
    ("old", "new", "line", "code"),
    [
        ('"pool_size", base', '"pools", base', 37, "claims.unknown_sweep"),
        ('base = "prefork"', 'base = "fork"', 37, "claims.unknown_contender"),
        ('against = "prefork_file_lock"', 'against = "prefork"', 37, "claims.against_itself"),
    ],
)
def test_mistakes_of_a_turn_are_refused(old: str, new: str, line: int, code: str, tmp_path: Path) -> None:
    check_mistake(study(tmp_path), GOOD + TURN, (old, new), line, code, "")


def test_the_tests_of_all_answers_are_one_family(tmp_path: Path) -> None:
    of = study(tmp_path)
    more = next(each for each in answered(of).figures if each["name"] == "more")
    assert more["p_adjusted"] == pytest.approx(2 * 2 * more["p_greater"])


def test_answer_names_missing_measurements(tmp_path: Path) -> None:
    text = GOOD.replace(
        'small = { weights = { "prefork@pool_size=10"',
        f'small = {{ weights = {{ "{synthetic_sweeps.LACKING}"',
    )
    first = answered(study(tmp_path, text)).answer[0]
    assert f"[not measured: {synthetic_sweeps.LACKING}: {synthetic_sweeps.WHY_LACKING}]" in first
    nothing = answers(study(tmp_path), {})[0]
    small, best = nothing.answer[0].partition("[")[2], nothing.answer[1].rpartition("[")[2]
    assert small.partition("]")[0].endswith(" prefork@pool_size=10")
    assert best.partition("]")[0].endswith(" server_cpu_per_connection")


def test_nothing_is_judged_before_a_look(tmp_path: Path) -> None:
    of = study(tmp_path)
    early = {
        name: {key: column[:5] for key, column in columns.items()} for name, columns in values(of).items()
    }
    found = answers(of, early)[0]
    assert f"CPU {NOT_JUDGED} that of" in found.answer[1] and "(by estimate alone)" in found.answer[1]
    assert {each["outcome"] for each in found.figures if "outcome" in each} == {None}
    repeated = of.model_copy(update={"repetitions": 3})
    words = " ".join(answers(repeated, early)[0].answer)
    assert "[not judged]" in words and "separated" not in words, "no word of a test that never ran"
    assert judged_after(of, early)[1] in (found.note or "").partition(": ")[2]


def test_best_contender_has_the_highest_value_if_more_is_better(tmp_path: Path) -> None:
    text = GOOD.replace(
        'base = "prefork_mutex", sweep = "pool_size"',
        'base = "thread_per_client", sweep = "delay", metric = "requests_per_second"',
    )
    best = answered(study(tmp_path, text)).answer[1].rpartition(" with ")[2]
    assert best.startswith("small (") and "large" not in best, "it is separated from the other point"


@pytest.mark.parametrize(
    ("old", "new", "line", "code", "offers"),
    [
        ("The other way round it {less} it.", "More is worse.", 12, "claims.sentence_without_figure", ""),
        ("{less} it.", "{lless} it.", 12, "claims.unknown_placeholder", "'less'?"),
        ("{less} it.", "{less it.", 12, "claims.bad_placeholder", "{NAME}"),
        ("{less} it.", "{less:.2f} it.", 12, "claims.bad_placeholder", "{less}"),
        ("{less} it.", "{less.unit} it.", 12, "claims.bad_placeholder", "{less.unit}"),
        ("{less} it.", "{more} it.", 22, "claims.unused_placeholder", "less"),
        ('key = "load.processes"', 'key = "load.process"', 28, "claims.unknown_setting", "'load.processes'?"),
        ('key = "settings.pool"', 'key = "design"', 29, "claims.not_a_number", '"prefork"'),
        ('fewest = { contender = "prefork@pool_size=10"', 'fewest = { contender = "prefork@pool_size=11"', 29,
         "claims.unknown_point", '"11"'),
        ('base = "prefork_mutex"', 'base = "prefork_mutes"', 25, "claims.unknown_contender",
         "'prefork_mutex'?"),
        ('sweep = "pool_size"', 'sweep = "pool_sizes"', 25, "claims.unknown_sweep", "'pool_size'?"),
        ("small = {", "small = { wait = 1,", 16, "claims.unknown_key", "wait"),
        ('small = { weights = { "prefork@pool_size=10"', 'small = { weights = { "prefork@pool_size=1"', 16,
         "claims.unknown_point", '"1"'),
        ('metric = "server_cpu_per_connection"', 'metric = "server_cpu_per_conection"', 8, "",
         "'server_cpu_per_connection'?"),
        ("best = { base", "more = { base", 25, "claims.duplicate_placeholder", "more"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_at_their_line(
    old: str, new: str, line: int, code: str, offers: str, tmp_path: Path
) -> None:
    check_mistake(study(tmp_path), GOOD, (old, new), line, code, offers)


def test_the_example_of_the_module_is_right(tmp_path: Path) -> None:
    import thunderherd.claims.question_tables as module

    example = (module.__doc__ or "").partition("```toml\n")[2].partition("```")[0]
    question = load_questions(study(tmp_path, GOOD.partition("[[questions]]")[0] + example))[0]
    assert question.given == {"clients": "10", "fewest": "10"}
