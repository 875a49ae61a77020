"""Tests of the ledger's shell: what it keeps, what it writes, and when."""
