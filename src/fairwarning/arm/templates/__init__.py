"""Deployment templates: the expression language, and the resources of a template. No I/O."""
