"""The syncer under API servers that live in memory, with faults, on a clock that costs nothing.

    virtualtime   an event loop whose time jumps to the next timer: hours pass in milliseconds
    store         objects, versions, history, compaction            api      verbs, admission, preconditions
    wire          a transport of `bulkhead.kube` without a network  faults   what may go wrong with a call or a watch
    world         two API servers, the real session of the syncer, the actors of both sides
    oracle        the invariants: some at every single commit, the others once all is quiet; with `claims` and `policies`

The real code of `syncer`, `bulkhead.kube` and `bulkhead.work` runs unchanged above the transport: bytes, lines and errors are
those of the wire. Everything follows from one seed. What is promised, and what is not, is in docs/decisions/0015-simulation.md.
"""
