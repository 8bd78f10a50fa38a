"""Durability. The only place with SQL."""
