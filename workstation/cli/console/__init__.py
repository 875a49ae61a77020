"""`bulkhead console` and `bulkhead top --html`: from what a user may read of a host to the picture of `workstation.console`.

observe   the host once, with the nodes' and the controller's state     drawing, alarms   from that to a picture, pure
"""
