"""Resource types: one record for each that acts, and any other type as a stored document (C8)."""
