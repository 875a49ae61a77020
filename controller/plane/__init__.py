"""Builders of all host objects of one tenant's plane.

Pure: each module turns a `PlaneSpec` into plain Kubernetes objects. Nothing here reads a clock, draws a random number or calls
an API server; keys and certificates are passed in as data. `render.py` puts the parts into the order in which they are applied.
"""
