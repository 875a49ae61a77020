"""Snapshots of planes as they are stored: what they consist of, how they are sealed, and which are refused.

    <prefix>/<identity>/<snapshot>/<attempt>/etcd.age    the store, as etcd writes it, encrypted to the admin's keys
                                            /plane.age   keys, Tenant, slice and record, encrypted likewise
                                  /manifest.json         sizes, digests, attempt and record, signed; written last

Without its manifest a snapshot does not exist. Each attempt writes objects of its own, so that two writers never mix theirs.

`manifest`, `bundle`, `frames`, `judge` and `layout` are pure; `sealing` and `target` do the rest. Its page:
docs/decisions/0047-snapshots-of-planes.md.
"""
