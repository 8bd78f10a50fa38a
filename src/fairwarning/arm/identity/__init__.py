"""Login, and the TLS certificates that Azure's tools verify."""
