"""The tables and keys of a study file, as a user writes them."""
