"""The sections of a pod's spec on the host. Pure."""
