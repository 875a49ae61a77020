"""A host without any of our images, and a registry with a password: pulled with the chart's Secret, or the reason reported."""
