"""GPU metrics in the format of dcgm-exporter: its fields, its text, and the pod that a sample belongs to. Pure."""
