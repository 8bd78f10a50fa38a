"""What Azure tools talk to: Azure Resource Manager's contract."""
