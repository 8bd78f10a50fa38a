"""PostgreSQL servers of the tests' own."""
