"""Pods: from a key to what is done for it, and the memory that deciding it takes."""
