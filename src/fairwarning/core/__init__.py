"""The rules of scheduled events, pure: no I/O, no clock, no randomness, no third-party import.

Time is an argument, and new ids are computed from arguments. Two functions are the way in:
`cascade.run` decides a command and all messages that follow from it, `document.document` renders
what a machine sees.
"""
