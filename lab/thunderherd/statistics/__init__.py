"""Pure functions of numbers: they know no study, no record and no file."""
