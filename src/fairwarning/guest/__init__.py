"""The guest side: a client of the metadata endpoint, and an agent. Standard library only (G)."""
