"""What the controller does inside tenants' planes, through their own API, and what it takes of their answers."""
