"""What the controller may do on the host, on a real API server: by the chart's roles alone, and whatever its code believes."""
