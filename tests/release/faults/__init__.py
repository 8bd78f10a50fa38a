"""Where a fault can come in, and what happens then."""
