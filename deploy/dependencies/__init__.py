"""What Fairwarning depends on: pinned versions, licenses, checksums and ages. See `make audit`."""
