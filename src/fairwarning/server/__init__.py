"""The server process: wiring, worker processes, sockets, keys, the data folder and `up.json`."""
