"""Checks of a study that is well formed; all run before the first trial."""
