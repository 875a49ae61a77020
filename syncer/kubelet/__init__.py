"""The kubelet and the metrics that the tenant's API server sees."""
