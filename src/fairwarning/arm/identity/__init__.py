"""Login, and the certificates that Azure's tools check."""
