"""Questions: answers are filled from the run and follow its verdicts, and no sentence lacks a figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.questions import GOOD
from made.summaries import sweeps as synthetic_sweeps
from made.values import values

from thunderherd.errors import UserError
from thunderherd.judge.claims.answers import answers
from thunderherd.judge.claims.claim_file import load_questions
from thunderherd.records.summary import QuestionSummary
from thunderherd.study.loading import Study


def study(directory: Path, text: str = GOOD) -> Study:
    path = directory / "claims.toml"
    path.write_text(text)
    return synthetic_sweeps.study().model_copy(update={"claims_path": path})


def answered(of: Study) -> QuestionSummary:
    return answers(of, values(of))[0]


def test_sentences_are_filled_from_the_run(tmp_path: Path) -> None:
    found = answered(study(tmp_path))
    first, second, third = found.answer
    assert first.startswith("For 10 clients: 0.25")
    assert " s per 5,000 connections (0.25" in first
    assert " with 11 workers, 0.3" in first, "a given may have something added"
    assert " with 120, 1.2" in first and " times (1." in first
    assert second.startswith(
        "The larger pool's CPU is more than that of the smaller; the least was seen with "
    )
    assert "(not separated from it: " in second and second.endswith(" workers {of 120}.")
    assert third == "The other way round it is below it."
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
    assert "CPU is less than that of the smaller" in answers(of, turned)[0].answer[1]
    cpu["prefork@pool_size=10"] = cpu["prefork@pool_size=120"]
    assert "CPU is not separated from that of the smaller" in answers(of, turned)[0].answer[1]


TURN = """
[[questions]]
id = "Q2"
text = "From how many on?"
metric = "server_cpu_per_connection"
answer = ["The verdict changes {turn}."]
[questions.turns]
turn = { sweep = "pool_size", base = "prefork", against = "prefork_file_lock" }
"""


def test_a_turn_lies_between_neighbouring_points(tmp_path: Path) -> None:
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
    assert found.answer == ['The verdict changes between 15 and 30 (from "is more than" to "is less than").']
    assert [(each["name"], each["outcome"]) for each in found.figures][2:4] == [
        ("turn=15", "above"),
        ("turn=30", "below"),
    ]
    more = next(each for each in answers(of, shaped)[0].figures if each["name"] == "more")
    assert more["p_adjusted"] == pytest.approx(8 * 2 * more["p_less"]), "its points are in the family"
    differ("30", 0.0)
    assert answers(of, shaped)[1].answer == [
        'The verdict changes between 15 and 30 (from "is more than" to "is not separated from") and '
        'between 30 and 60 (from "is not separated from" to "is less than").'
    ]
    for point in ("5", "10", "15", "30"):
        differ(point, -0.1)
    nowhere = 'The verdict changes nowhere ("is less than" at 5, 10, 15, 30, 60, 120).'
    assert answers(of, shaped)[1].answer == [nowhere]
    repeated = of.model_copy(update={"repetitions": 3})
    assert answers(repeated, shaped)[1].answer == ["The verdict changes [not judged]."]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"pool_size", base', '"pools", base', 'no such sweep "pools"'),
        ('base = "prefork"', 'base = "fork"', 'no such contender of sweep pool_size "fork"'),
        ('against = "prefork_file_lock"', 'against = "prefork"', "nothing differs from itself"),
    ],
)
def test_mistakes_of_a_turn_are_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in TURN
    with pytest.raises(UserError, match=said):
        load_questions(study(tmp_path, GOOD + TURN.replace(old, new)))


def test_the_tests_of_all_answers_are_one_family(tmp_path: Path) -> None:
    of = study(tmp_path)
    more = next(each for each in answered(of).figures if each["name"] == "more")
    assert more["p_adjusted"] == pytest.approx(2 * 2 * more["p_greater"])


def test_what_is_not_measured_is_said_in_the_sentence(tmp_path: Path) -> None:
    text = GOOD.replace(
        'small = { weights = { "prefork@pool_size=10"',
        f'small = {{ weights = {{ "{synthetic_sweeps.LACKING}"',
    )
    first = answered(study(tmp_path, text)).answer[0]
    assert f"[not measured: {synthetic_sweeps.LACKING}: {synthetic_sweeps.WHY_LACKING}]" in first
    nothing = answers(study(tmp_path), {})[0]
    assert "[not measured: the run has no valid trials of prefork@pool_size=10]" in nothing.answer[0]
    assert "[not measured: no point has server_cpu_per_connection]" in nothing.answer[1]


def test_before_a_look_nothing_is_judged(tmp_path: Path) -> None:
    of = study(tmp_path)
    early = {
        name: {key: column[:5] for key, column in columns.items()} for name, columns in values(of).items()
    }
    found = answers(of, early)[0]
    assert "CPU [not judged] that of" in found.answer[1] and "(by estimate alone)" in found.answer[1]
    assert {each["outcome"] for each in found.figures if "outcome" in each} == {None}
    repeated = of.model_copy(update={"repetitions": 3})
    words = " ".join(answers(repeated, early)[0].answer)
    assert "[not judged]" in words and "separated" not in words, "no word of a test that never ran"
    assert "nothing is judged: the first planned look comes after 14 blocks, there are 5" in (
        found.note or ""
    )


def test_where_more_is_better_the_best_is_the_most(tmp_path: Path) -> None:
    text = GOOD.replace(
        'base = "prefork_mutex", sweep = "pool_size"',
        'base = "thread_per_client", sweep = "delay", metric = "requests_per_second"',
    )
    assert "seen with small (separated from all others)" in answered(study(tmp_path, text)).answer[1]


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ("The other way round it {less} it.", "More is worse.", 12, "rests on no figure"),
        ("{less} it.", "{lless} it.", 12, "did you mean 'less'?"),
        ("{less} it.", "{less it.", 12, "write {NAME}"),
        ("{less} it.", "{less:.2f} it.", 12, "is no plain name"),
        ("{less} it.", "{less.unit} it.", 12, "is no plain name"),
        ("{less} it.", "{more} it.", 22, "less is used in no sentence"),
        ('key = "load.processes"', 'key = "load.process"', 28, "did you mean 'load.processes'?"),
        ('key = "settings.pool"', 'key = "design"', 29, "no number to reckon with"),
        (
            'fewest = { contender = "prefork@pool_size=10"',
            'fewest = { contender = "prefork@pool_size=11"',
            29,
            "no such point",
        ),
        ('base = "prefork_mutex"', 'base = "prefork_mutes"', 25, "did you mean 'prefork_mutex'?"),
        ('sweep = "pool_size"', 'sweep = "pool_sizes"', 25, "did you mean 'pool_size'?"),
        ("small = {", "small = { wait = 1,", 16, "no such key"),
        (
            'small = { weights = { "prefork@pool_size=10"',
            'small = { weights = { "prefork@pool_size=1"',
            16,
            "no such point",
        ),
        ('metric = "server_cpu_per_connection"', 'metric = "server_cpu_per_conection"', 8, "did you mean"),
        ("best = { base", "more = { base", 25, "more is there twice"),
    ],
)
def test_mistakes_have_their_line(old: str, new: str, line: int, complaint: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(UserError) as caught:
        load_questions(study(tmp_path, GOOD.replace(old, new)))
    told = str(caught.value).splitlines()
    assert any(f"claims.toml:{line}: " in each and complaint in each for each in told), told


def test_the_example_of_the_module_is_right(tmp_path: Path) -> None:
    import thunderherd.judge.claims.question_tables as module

    example = (module.__doc__ or "").partition("```toml\n")[2].partition("```")[0]
    question = load_questions(study(tmp_path, GOOD.partition("[[questions]]")[0] + example))[0]
    assert question.given == {"clients": "10", "fewest": "10"}
