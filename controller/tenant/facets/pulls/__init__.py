"""The Secret with which the host's nodes pull the images of the tenant's pods."""
