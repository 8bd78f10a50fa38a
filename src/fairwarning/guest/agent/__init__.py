"""The agent: runs hooks before, during and after an event, and approves events (G4 to G6).

`plan` decides, `journal` persists, `agent` acts.
"""
