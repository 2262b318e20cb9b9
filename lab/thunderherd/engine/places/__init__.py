"""How a process of the engine is found, started and spoken to, and where it runs."""
