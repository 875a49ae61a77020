"""What the documentation names and shows is there and works."""
