"""Two real API servers for the tests: see `servers`."""
