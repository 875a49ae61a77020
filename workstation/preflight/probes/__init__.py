"""Pods that run for seconds in a namespace of their own, and what they showed.

space     the namespace: created, watched, always removed; leftovers of earlier runs are removed first
objects   the manifests (pure); every pod satisfies Pod Security `restricted`
program   the program of a pod; its text is in the command, so any image with Python 3 works
network   which connections succeed before, under and after the policies
trials    storage, images, GPUs, user namespaces, Pod Security
"""
