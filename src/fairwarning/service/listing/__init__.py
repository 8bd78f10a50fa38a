"""Lists and counts over the whole fleet, for people who run many machines (O14)."""
