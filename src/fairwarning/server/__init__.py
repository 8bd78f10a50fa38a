"""Runs a process: wiring, worker processes, sockets, keys, the data folder, and the ready line."""
