"""Mutants of `core`: small changes of its source, each of which a test or a seed must catch.

| module | holds |
|---|---|
| `mutations` | which changes are made |
| `checks` | what they are tried against, and which check reaches which line |
| `trial` | runs the checks with a mutant in place of the source, in a forked process with limits |
"""
