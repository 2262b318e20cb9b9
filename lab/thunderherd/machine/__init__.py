"""The machine: what it is, how quiet it is, and what its limits are."""
