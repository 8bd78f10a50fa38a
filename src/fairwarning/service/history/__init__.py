"""The past, read from the journal: deliveries, event history, explanations, the timeline."""
