"""The simulator: one seed drives clock, commands, faults and crashes over the production code."""
