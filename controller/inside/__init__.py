"""What the controller does inside tenants' planes through their APIs, and how much of the responses it accepts."""
