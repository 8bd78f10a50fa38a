"""The certificates of the TLS ports: the own authority, and those that it signs."""
