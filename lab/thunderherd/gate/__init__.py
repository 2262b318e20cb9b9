"""Did a server get slower? Base and head in the same blocks, judged against a margin."""
