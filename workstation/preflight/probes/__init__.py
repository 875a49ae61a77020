"""Pods that live for seconds, in a namespace of their own, and what they were seen to do.

space     the namespace: made, watched, removed whatever happens; what an earlier run left is removed first
objects   the manifests (pure); every pod satisfies Pod Security `restricted`
program   what runs in a pod; sent along as text, so any image with Python 3 will do
network   who reaches whom before, under and after the policies
trials    storage, images, GPUs, user namespaces, Pod Security
"""
