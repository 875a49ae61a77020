"""Tests of the reconciliation of one tenant, against a host API server of their own."""
