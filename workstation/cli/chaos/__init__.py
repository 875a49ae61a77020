"""`bulkhead chaos`: break a tenant on purpose, and measure the others.

actions  the parser, and `chaos list`
running  `chaos run` and `chaos stop`
reach    the way into planes: a certificate for an hour, and a tunnel where there is no route
show     plans and reports for people
"""
