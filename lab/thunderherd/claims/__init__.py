"""The claims and questions of a source, as its claims file states them."""
