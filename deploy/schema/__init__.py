"""The shapes of Azure's resources, from the types in Azure's SDK for Python."""
