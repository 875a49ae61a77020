"""The core suite: what a new user does, what must not work, and what must repair itself, on one host by several processes.

A tenant costs 17 seconds of CPU from its creation to its end, so a test takes the first of these that fits:

    alice, bob      exist as long as a process, or all of them: a test leaves nothing in them (`space` is a namespace for one)
    shared          tenants that the files of a group use one after the other, which name its function `ahead`
    ahead           a file's own function, for a tenant of a class of its own
    fresh           a test's own tenant, by a mark with its spec

All but the first are created while the tests before run, and deleted as soon as no test needs them (`conftest`, `e2e.fleet`).
"""
