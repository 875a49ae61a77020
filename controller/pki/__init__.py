"""Keys and certificates: the one place that draws random numbers and signs. What to issue is decided in `plane.pki`."""
