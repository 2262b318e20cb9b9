"""What load generators print: a parser for each program (`parsers` has the table), by what it moves."""
