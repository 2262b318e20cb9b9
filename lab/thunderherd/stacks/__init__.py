"""Call stacks, and what the kernel's functions in them do."""
