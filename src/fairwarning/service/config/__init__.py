"""The fleet file and the settings that it holds."""
