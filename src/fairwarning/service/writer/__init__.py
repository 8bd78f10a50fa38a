"""Carries commands out: what waits, decides, commits, publishes and dispatches."""
