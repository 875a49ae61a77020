"""The elastic lease: decides how many workers a cluster should have, and the steps towards that. Pure."""
