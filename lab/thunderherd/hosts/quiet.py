"""Settings of Dask for hosts that are measured, and what it prints.

With its defaults, an idle worker takes 4 to 5 % of a CPU, and the death of a worker makes a call hang or be
made twice.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from thunderherd.engine.process import one_line

SECONDS_UNTIL_LOST = 11
"""The time after which a host behind a cut link is given up; Dask does not allow less."""

NO_HTTP = "127.0.0.1:0"
"""Where Dask's HTTP server listens, which cannot be left out: it has no route, and nobody else reaches it."""

LOGGERS = ("distributed", "tornado", "asyncio")
"""What Dask prints with."""

SETTINGS: dict[str, Any] = {
    "distributed.admin.log-format": "%(message)s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "1s",
    "distributed.comm.retry.count": 0,
    "distributed.comm.timeouts.connect": f"{SECONDS_UNTIL_LOST}s",
    "distributed.comm.timeouts.tcp": f"{SECONDS_UNTIL_LOST}s",
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.no-workers-timeout": "5s",
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.monitor-interval": "1h",
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep Dask from printing. What matters of it is in the messages of this program."""
    # Dask sets the levels of some below these, too.
    known = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in LOGGERS]
    loggers = [logging.getLogger(name) for name in known]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


def in_words(error: BaseException) -> str:
    """Return what was first in a chain of errors: the later ones say only that time is over."""
    while (before := error.__cause__ or error.__context__) is not None and str(before):
        error = before
    return one_line(str(error))[:200] or (
        "no answer" if isinstance(error, TimeoutError) else type(error).__name__
    )
