"""Fairwarning: notice before something happens to a machine, and a say in when it happens."""
