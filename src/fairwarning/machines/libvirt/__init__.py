"""The libvirt driver: machines are domains, and their metadata records what was done to them."""
