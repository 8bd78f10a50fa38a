"""The libvirt driver: machines are domains, and remember themselves what was done to them."""
