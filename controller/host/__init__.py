"""What the controller watches and marks on the host as a whole, whichever tenant's it is."""
