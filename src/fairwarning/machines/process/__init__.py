"""The process driver: `fairwarning exec` runs a program as a machine (O4)."""
