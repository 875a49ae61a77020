"""Fake GPUs of the embedded host's real nodes: a kubelet device plugin that hands out device nodes without a driver."""
