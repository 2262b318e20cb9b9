"""Call stacks, and the meaning of kernel functions in them."""
