"""What load generators print: a parser for each program, by the kind of what it moves."""
