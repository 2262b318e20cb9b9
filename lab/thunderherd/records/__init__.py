"""The files of a run: their shapes, writing and reading."""
