"""How machines are reached, each on its own address, port or socket (M22)."""
