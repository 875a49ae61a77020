"""Snapshots of planes as they are stored: what they consist of, how they are sealed, and which are refused.

    <prefix>/<identity>/<snapshot>/etcd.age        the store of the plane, as etcd writes it, encrypted to the admin's keys
                                  /plane.age       keys, Tenant, slice and record, encrypted likewise
                                  /manifest.json   sizes, digests and the record, signed; written last: without it there is none

`manifest`, `bundle`, `frames`, `judge` and `layout` are pure; `sealing` and `target` do the rest. Its page:
docs/decisions/0047-snapshots-of-planes.md.
"""
