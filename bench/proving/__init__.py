"""What a proof of the load generator rests on: formulas, and trials that they are checked against."""
