"""Which tests prove which row of the contract."""
