"""The elastic lease: how many workers there are to be, and the steps on the way there. Pure."""
