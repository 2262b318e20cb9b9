"""A claims file with questions that load."""

from __future__ import annotations

GOOD = """\
study = "unp-ch30"
source = "unp-ch30"

[[questions]]
id = "Q1"
text = "Is a pool larger than the number of clients worth it?"
note = "slide 24"
metric = "server_cpu_per_connection"
answer = [
    "For {clients} clients: {small} with {fewest} workers, {large} with 120, {times}.",
    "The larger pool's CPU {more} that of the smaller; the least was seen with {best} workers {{of 120}}.",
    "The other way round it {less} it.",
]

[questions.figures]
small = { weights = { "prefork@pool_size=10" = 1 } }
large = { weights = { "prefork@pool_size=120" = 1 } }
times = { weights = { "prefork@pool_size=120" = 1 }, over = { "prefork@pool_size=10" = 1 } }

[questions.verdicts]
more = { weights = { "prefork@pool_size=120" = 1, "prefork@pool_size=10" = -1 } }
less = { weights = { "prefork@pool_size=10" = 1, "prefork@pool_size=120" = -1 }, below = "is below" }

[questions.best]
best = { base = "prefork_mutex", sweep = "pool_size" }

[questions.given]
clients = { contender = "prefork@pool_size=10", key = "load.processes", times = "load.settings.children" }
fewest = { contender = "prefork@pool_size=10", key = "settings.pool", plus = 1 }
"""
