"""The `bulkhead` command, also found as `kubectl bulkhead`.

    main        words in, exit code out; errors turned into one line with a next step
    commands    the table of commands, and the file of each; only the one that is named is imported
    parsing     the parser, and what a command is: a frozen request, and what runs it
    values      types of values on the command line (pure)
    arguments   options that several commands have
    output      tables, documents and progress, safe for a terminal
    failures    expected errors with their exit codes

    tenant/     tenant create | list | describe | accept-data | delete
    quotas/     top, why, cohort, quota try, usage
    ssh/        ssh
    credentials/  where credentials come from and are kept; what kubectl calls
    login, logout, revoke, kubeconfig, connect, slurm, slurmtoken, audit, preflight, images, host, version: each its command
    completion, complete  a shell's script, and what it asks

    hostfile, connection  the host's kubeconfig, and a client of the host
    access, arrival, tunnel, execcredential, trouble  what several commands do

A command's file has its parser (`add_arguments`), its frozen request, and what takes that. Nothing is imported here: the
command must start fast, and loads what it needs.
"""
