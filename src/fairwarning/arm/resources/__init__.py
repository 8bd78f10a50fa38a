"""Resource types, one module for each, with their routes."""
