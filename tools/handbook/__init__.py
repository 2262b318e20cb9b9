"""What `make docs`, `make records` and `make site` are made of: pages from registries, schemas and
records."""
