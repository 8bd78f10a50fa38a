"""Build the agent as one file, fairwarning-agent.pyz, and as a Debian package: `make dist`."""
