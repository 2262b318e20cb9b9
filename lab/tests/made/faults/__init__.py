"""System calls that strace makes fail, and the clients that see what an engine does then."""
