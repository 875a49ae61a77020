"""The Slurm mode: a Slurm cluster made of ordinary pods inside a tenant's plane.

    Tenant ──> ordering (with keystore) ─┬─> loop ──> cluster: observe, apply, act, report, accounts
                                         └─> ssh: its CA, and who gets a certificate of it

    spec/     what a cluster is: the input of all others         (pure)
    config/   Slurm's text files                                 (pure)
    objects/  the cluster's objects in the plane                 (pure)
    answers/  what slurmrestd and the plane say, as frozen values (pure)
    board     where the ledger and the clusters tell each other about workers
    lease/    how many workers there are to be, and the next steps there (pure)
    decide/   from a Tenant to its spec, from what was found to conditions, sites and accounts (pure)
    client/   the client of slurmrestd
    ssh/      certificates by which people come in

What talks to slurmrestd and to the plane is in the files of this folder and in client/; no pure folder imports them.
"""
