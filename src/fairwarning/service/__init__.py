"""The shell: makes the core happen in time. `fleet.Fleet` is the one way in."""
