"""The code behind `make docs`, `make records` and `make site`."""
