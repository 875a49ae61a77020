"""A host that has no image of ours and a registry with a password: pulled with the chart's Secret, or said why not."""
