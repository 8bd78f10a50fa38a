"""Parameter types for numbers in a range, whose errors say "integer" and "number"."""

import click


class Integer(click.IntRange):
    """A whole number in a range."""

    name = "integer"


class Number(click.FloatRange):
    """A number in a range."""

    name = "number"
