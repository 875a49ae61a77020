"""Everything that is mirrored and is no pod, and the classes that the host offers."""
