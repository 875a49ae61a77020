"""The objects that the controller creates inside a plane, as data. Pure."""
