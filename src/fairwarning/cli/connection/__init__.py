"""Which service a command uses, and how it sends requests to it."""
