"""The other process: start the engine, ask it, read its lines."""
