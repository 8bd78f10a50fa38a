"""Webhooks: send every change of an event to the subscribers.

The durable journal is the outbox, and a subscription is a position in it. Webhooks never affect
events, and a slow receiver delays only its own deliveries.
"""
