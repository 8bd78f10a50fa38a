"""The past, read from the journal: event history, explanations, the timeline."""
