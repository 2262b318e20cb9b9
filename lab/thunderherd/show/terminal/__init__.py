"""Pages of the terminal, and the writer of their tables."""
