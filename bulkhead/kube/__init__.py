"""All traffic with an API server: client, watch, informer, apply, lease, byte proxy. No tenants in here.

Nothing here imports pydantic, kopf, cryptography or rich: the syncer lives in a few tens of MiB. The tree of errors is
drawn in `errors`; the way of an object is server -> `transport` (bounds, deadlines) -> `watch` (lines) -> `informer` (store).
"""
