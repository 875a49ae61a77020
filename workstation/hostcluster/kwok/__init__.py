"""Simulated GPU nodes of the embedded host: Node objects that kwok keeps Ready, with the labels of real GPU nodes."""
