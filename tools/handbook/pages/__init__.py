"""The generated pages: what of each follows from registries, schemas, notes and records."""
