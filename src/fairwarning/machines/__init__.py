"""Drivers: what "reboot" really does."""
