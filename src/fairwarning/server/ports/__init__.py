"""Serving of the console and the ARM port within limits, so that they never delay a poll."""
