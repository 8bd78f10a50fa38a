"""The conformance kit for handlers (O11): traps, and what a program makes of them."""
