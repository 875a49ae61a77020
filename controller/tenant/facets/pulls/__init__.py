"""The Secret with which the host's nodes pull the images of the tenant's pods.

Its page: docs/decisions/0031-images-for-other-clusters.md.
"""
