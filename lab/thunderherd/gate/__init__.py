"""Did a server get slower? Base and head in the same blocks, and baselines over time."""
