"""What a machine talks to."""
