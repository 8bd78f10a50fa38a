"""The command driver: runs a program that the operator provides for each impact."""
