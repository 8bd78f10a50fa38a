"""Several real processes on one PostgreSQL, with injected faults."""
