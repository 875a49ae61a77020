"""What the controller makes inside a plane, as data. Pure."""
