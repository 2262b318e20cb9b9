"""The answer of a run in a sentence, its places, and the machine in short: all from the summary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from made.summaries import sweeps as synthetic_sweeps
from made.summaries.summary import document, summary

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.answer import answer, machine_in_short, places_of, sweep_answer, weighty


def changed(**parts: Any) -> Summary:
    data = json.loads(document())
    for name, part in parts.items():
        data[name] = part(data[name])
    return Summary.model_validate(data)


def judged(verdict: str, **more: Any) -> Any:
    return lambda pairs: [pair | {"verdict": verdict} | more for pair in pairs]


def test_the_winner_its_lead_and_the_interval_are_the_summarys() -> None:
    of = summary()
    said = answer(of)
    assert [each.place for each in said.ranking][:1] == ["1"] and said.ranking[0].name == "iterative"
    pair = next(each for each in of.pairs if (each.a, each.b) == ("iterative", "prethread"))
    assert pair.ratio and pair.low and pair.high
    less, least, most = (f"{100 * (1 - each):.0f}" for each in (pair.ratio, pair.high, pair.low))
    facts = ("iterative ", " 10 ", f" {less} % ", " prethread", "(95.8 % ", f"{least} to {most} %")
    places = [said.sentence.find(fact) for fact in facts]
    assert -1 not in places and places == sorted(places), said.sentence


def three_undecided() -> Summary:
    near = {"iterative", "prethread", "prefork"}
    return changed(
        pairs=lambda all_: [
            pair | ({"verdict": "undecided"} if {pair["a"], pair["b"]} <= near else {}) for pair in all_
        ]
    )


def test_a_shared_first_place_is_not_given_to_one() -> None:
    said = answer(three_undecided())
    first = [each.name for each in said.ranking if each.place.split("–")[0] == "1"]
    assert {"iterative", "prethread"} <= {*first} and len(first) > 1
    assert said.sentence.startswith(f"{len(first)} of 10 ")


def test_places_follow_from_the_verdicts() -> None:
    of = summary()
    places = places_of(of)
    for name, (first, last) in places.items():
        better = sum(
            (pair.a == name and pair.verdict == "slower") or (pair.b == name and pair.verdict == "faster")
            for pair in of.pairs
            if {pair.a, pair.b} <= {*places}
        )
        assert first == better + 1 <= last <= len(places)
    assert {name for name, (_, last) in places.items() if last == len(places)} == {"fork_per_client"}
    assert "prefork_modern" not in places, "a control has none"


def test_contenders_without_a_verdict_are_not_called_equal() -> None:
    said = answer(changed(pairs=judged("undecided")))
    assert {each.place for each in said.ranking} == {"1–10"}
    assert "10 contenders" in said.sentence and "equal" not in said.sentence


def two_equivalent() -> Summary:
    kept = {"prefork", "prefork_mutex"}
    return changed(
        contenders=lambda all_: [each for each in all_ if each["name"] in kept],
        pairs=lambda all_: [
            pair | {"verdict": "equivalent"} for pair in all_ if {pair["a"], pair["b"]} <= kept
        ],
    )


def test_equivalent_winners_are_called_equivalent() -> None:
    said = answer(two_equivalent()).sentence
    assert "equivalent" in said and " 3 % " in said


def test_repeated_runs_judge_nothing() -> None:
    of = synthetic_sweeps.summary(repetitions=3)
    said = answer(of)
    assert "no verdicts" in said.sentence and not said.is_judged
    assert all("no verdicts" in text for _, text in said.further)


def test_sweep_answer_covers_every_sweep() -> None:
    of = synthetic_sweeps.summary()
    for sweep in of.sweeps:
        said = sweep_answer(of, sweep)
        assert said and all(word in said for word in ("In ", "."))
    alone = synthetic_sweeps.summary(main=False)
    first = alone.sweeps[0]
    assert answer(alone).sentence.startswith(f"{first.title}. In ")
    assert answer(alone).ranking == ()
    over = answer(alone).over
    assert over is not None and answer(of).over is None
    for column, point in enumerate(over.points):
        beaten = dict.fromkeys((base for base, _ in over.rows), 0)
        for pair in alone.pairs:
            if (pair.sweep, pair.point) == (first.name, point) and pair.verdict in ("faster", "slower"):
                behind = pair.b if pair.verdict == "faster" else pair.a
                beaten[behind.partition("@")[0]] += 1
        for base, places in over.rows:
            assert places[column] == "-" or int(places[column].split("–")[0]) == beaten[base] + 1


def test_a_shared_first_place_of_a_sweep_has_its_lead_over_the_others() -> None:
    of = synthetic_sweeps.summary()
    pools = of.sweeps[0]
    names = {"prefork", "prefork_mutex"}
    pairs = [
        pair.model_copy(update={"verdict": "undecided"})
        if {each.partition("@")[0] for each in (pair.a, pair.b)} <= names
        else pair
        for pair in of.pairs
    ]
    said = sweep_answer(of.model_copy(update={"pairs": pairs}), pools)
    assert "prefork and prefork_mutex " in said
    assert re.search(r"prefork_file_lock \(at least [\d.]+ (%|times) .*95\.", said)


def test_answer_of_an_unfinished_run_begins_with_that() -> None:
    finished = answer(summary()).sentence
    unfinished = answer(changed(study=lambda study: study | {"complete": False})).sentence
    assert unfinished.endswith(f". {finished}")


def test_the_machine_has_two_lines_and_rejected_or_invalid_trials_are_listed() -> None:
    what, how = machine_in_short(summary())
    assert what.split(", ")[:2] == ["Synthetic CPU @ 2.00GHz", "2 CPUs"]
    assert what.endswith("Debian GNU/Linux 12 (bookworm), Linux 6.1.0-synthetic") and " 7.8 GiB " in what
    assert "loopback" in how and " bbr" in how
    assert [re.findall(r"\d+", line) for line in weighty(summary())] == [["1"], ["1", "133"]]
    given_up, noisy = weighty(lost())[:2]
    assert ": prefork" in given_up and "noisier" in noisy


def lost() -> Summary:
    return changed(trials=lambda trials: trials | {"given_up": {"prefork": "why"}, "noisy_blocks_kept": [3]})


def test_golden_page_of_answers(golden: Callable[[str, str], None]) -> None:
    cases = {
        "a winner": summary(),
        "a shared first place": three_undecided(),
        "nobody ahead": changed(pairs=judged("undecided")),
        "two equivalent": two_equivalent(),
        "repeated runs": synthetic_sweeps.summary(repetitions=3),
        "sweeps": synthetic_sweeps.summary(),
        "an unfinished run": changed(study=lambda study: study | {"complete": False}),
        "a contender given up": lost(),
    }
    parts = [
        "\n".join([f"# {name}", answer(of).sentence, *(line for _, line in answer(of).further), *weighty(of)])
        for name, of in cases.items()
    ]
    golden("show/answers.txt", "\n\n".join([*parts, *machine_in_short(summary())]) + "\n")
