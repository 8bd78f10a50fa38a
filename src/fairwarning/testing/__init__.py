"""A cloud in a test's own process, with virtual time: see `pytest_plugin` (O9)."""
