"""Builders of everything one tenant's plane is made of on the host.

Pure: each module turns a `PlaneSpec` into plain Kubernetes objects. Nothing here reads a clock, draws a random number or
talks to an API server; keys and certificates arrive as data. `render.py` puts the parts in the order they are applied.
"""
