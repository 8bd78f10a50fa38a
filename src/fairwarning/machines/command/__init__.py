"""The command driver: a program of the operator's own carries impacts out."""
