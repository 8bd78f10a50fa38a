"""The metadata endpoint that machines poll."""
