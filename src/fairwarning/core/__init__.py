"""The rules of scheduled events, pure: no I/O, no clock, no randomness, no third-party import.

Time and new ids arrive as arguments. Whoever drives the rules needs two functions:
`cascade.run` (one command and all that follows from it) and `document.document` (what a machine
sees). Everything else here is what those two are made of.
"""
