"""By what names the plane is reached from outside of the host."""
