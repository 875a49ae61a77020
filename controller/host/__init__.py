"""What the controller watches and writes on the host for all tenants together."""
