"""Fake GPUs of the embedded host's real node: a kubelet device plugin handing out device nodes without a driver."""
