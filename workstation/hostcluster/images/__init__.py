"""Container images of the embedded host, built on the machine itself: no registry, no image builder, only apt and pip."""
