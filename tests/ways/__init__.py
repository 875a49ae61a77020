"""The ways into planes with real implementations beside real API servers: MetalLB's controller, and Contour with Envoy."""
