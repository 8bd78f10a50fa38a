"""Several real processes on one PostgreSQL, under fire."""
