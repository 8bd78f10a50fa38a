"""The agent: runs hooks before, at and after what happens to its machine, and approves (G4 to G6).

`plan` decides, `journal` remembers, `runner` acts.
"""
