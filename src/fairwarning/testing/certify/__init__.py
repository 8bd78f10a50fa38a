"""The conformance kit for event handlers (O11): traps, and the results of running them."""
