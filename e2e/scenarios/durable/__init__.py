"""Planes that lose data, members and stores on the embedded host, and come back."""
