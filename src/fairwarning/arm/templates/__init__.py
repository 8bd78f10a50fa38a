"""Deployment templates: their language, and what one of them asks for. Pure."""
