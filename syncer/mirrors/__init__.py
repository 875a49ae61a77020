"""All mirrored kinds except pods, and the classes that the host offers."""
