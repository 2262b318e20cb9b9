"""The machine: what it is, how quiet it is, its machine limits, and the resource limits of this process."""
