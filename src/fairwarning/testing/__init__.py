"""A cloud in the process of a test, with a virtual clock (O9); see `pytest_plugin`."""
