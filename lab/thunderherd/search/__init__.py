"""Searches: studies that write studies. `crossover` and `knee`, in two stages."""
