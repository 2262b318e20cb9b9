"""Which of two contenders is ahead at a size, and how often they change places over a range of sizes."""

from __future__ import annotations

from typing import Literal

Standing = Literal["a", "b", "equivalent", "undecided"]
"""What is shown at one size: which contender is ahead, that both are equivalent, or nothing."""

Outcome = Literal["one", "several", "everywhere", "where_separated", "nowhere_separated"]
"""One crossing; several; one contender ahead at every size; at some, and the other at none; neither at
any."""
