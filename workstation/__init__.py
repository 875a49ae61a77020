"""What runs on a person's machine: the command line, the checks before an install, the image builder, the embedded host."""
