"""The query language of Azure Resource Graph: the part that people use most (pure)."""
