"""Tests of the pure core of the ledger."""
