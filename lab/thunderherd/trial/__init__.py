"""One trial: a fresh server, a load, a measured window; what it observed and whether it is valid."""
