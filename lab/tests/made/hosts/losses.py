"""Losses in mid-trial: of a host, of a link, of a scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from made.hosts.network import assert_measured
from thunderherd.records.trial import TrialRecord
from thunderherd.study.loading import Study
from thunderherd.trial.sites import sites_of
from thunderherd.trial.trial import run_trial

LONGEST_NOTICE = {"killed": 2.0, "cut": 15.0}
"""The seconds within which a loss is noticed."""


def lost_in_trial(
    made: Callable[[str], Study],
    lose: Callable[[], None],
    mend: Callable[[], None],
    how: Literal["killed", "cut"],
) -> TrialRecord:
    """Check that a loss makes a trial invalid in time, and that the next is measured; return the invalid one.

    `made` makes a study whose window has a length.
    """
    happened: list[float] = []

    def happens() -> None:
        happened.append(time.monotonic())
        lose()

    study = made("300ms")
    long = made("60s")
    longer, short = long.contenders[0], study.contenders[0]
    with sites_of(long) as sites:
        (site,) = sites.values()
        timer = threading.Timer(1.0, happens)
        timer.start()
        trial = run_trial(study, longer, block=1, position=1, seed=1, site=site)
        noticed = time.monotonic() - happened[0]
        timer.join()
        assert not trial.valid
        assert noticed < LONGEST_NOTICE[how], trial.invalid_reasons
        mend()
        site.check()
        again = run_trial(study, short, block=1, position=1, seed=1, attempt=2, site=site)
        assert_measured(again)
    return trial
