"""Build what a release consists of: `make dist`."""
