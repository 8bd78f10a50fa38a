"""The store for many processes on many hosts: PostgreSQL."""
