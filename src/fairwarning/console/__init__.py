"""What people and their tools talk to."""
