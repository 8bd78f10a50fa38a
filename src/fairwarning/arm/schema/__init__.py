"""The shapes of Azure's resources: the members of each type, and the types of their values."""
