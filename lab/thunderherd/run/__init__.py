"""A run: a study from its first block to its results folder."""
