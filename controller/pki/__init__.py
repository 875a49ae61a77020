"""Keys and certificates: the only place that draws random numbers and signs. `plane.pki` decides what to issue."""
