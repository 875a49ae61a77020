"""Tenant to running control plane: observe, plan (pure), apply, status (pure)."""
