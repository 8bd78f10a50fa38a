"""Drivers: the code that executes impacts on machines."""
