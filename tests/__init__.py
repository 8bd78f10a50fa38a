"""The tests. Folders mirror src; conformance ties tests to the rows of the contract."""
