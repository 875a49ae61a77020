"""Snapshots as they are stored."""
