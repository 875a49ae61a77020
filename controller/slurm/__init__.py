"""The Slurm mode: a Slurm cluster made of ordinary pods inside a tenant's plane.

    Tenant ──> ordering (with keystore) ─┬─> loop ──> cluster: observe, apply, act, report, accounts
                                         └─> ssh: its CA, and the certificates that it signs

    spec/     what a cluster is: the input of all others         (pure)
    config/   Slurm's text files                                 (pure)
    objects/  the cluster's objects in the plane                 (pure)
    answers/  the answers of slurmrestd and the plane, as frozen values (pure)
    board     where the ledger and the clusters exchange news about workers
    lease/    how many workers a cluster should have, and the next steps towards that (pure)
    decide/   from a Tenant to its spec, from observations to conditions, sites and accounts (pure)
    client/   the client of slurmrestd
    ssh/      certificates with which users log in

The code that talks to slurmrestd and to the plane is in the files of this folder and in client/; no pure folder imports it.
"""
