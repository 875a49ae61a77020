"""The images that are published: archives, SBOMs, pushes."""
