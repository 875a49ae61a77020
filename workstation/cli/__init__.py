"""The `bulkhead` command, also found as `kubectl bulkhead`.

    main        the parser, and errors turned into one line with a next step
    connection  the host's kubeconfig, and clients
    execcredential  credentials from a plugin that the admin's kubeconfig names
    tenants     tenant create | list | describe | delete
    waiting     waits that show what they wait for
    trouble     warnings of pods that do not start (pure)
    access      kubeconfig, connect
    slurm       slurm TENANT, slurm token
    images      images list | build | push
    output      tables and progress, safe for a terminal
    failures    expected errors with their exit codes
    host        the embedded host

Nothing is imported here: the command must start fast, and each subcommand loads what it needs.
"""
