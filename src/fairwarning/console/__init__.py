"""The operator console: its HTTP API and its web page."""
