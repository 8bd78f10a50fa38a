"""Webhooks: every change of an event is sent to whoever subscribed.

The journal is the outbox: it is durable already, so a subscription is a place in it. Nothing here
decides anything about events, and nothing waits for a receiver but the delivery to that receiver.
"""
