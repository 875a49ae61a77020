"""Planes that survive: snapshots of planes on the embedded host."""
