"""Tests of what the controller reads and writes on the host beside tenants' objects."""
