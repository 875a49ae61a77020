"""The `bulkhead` command, also found as `kubectl bulkhead`.

    main        from words to an exit code; an expected error becomes one line with a next step
    commands    the table of commands and their files; only the file of the named command is imported
    parsing     the parser; a command is a frozen request and the function that runs it
    values      types of values on the command line (pure)
    arguments   options that several commands share
    output      tables, documents and progress, safe for a terminal
    failures    expected errors and their exit codes

    tenant/     tenant create | list | describe | why | accept-data | snapshot | verify-snapshot | delete
    quotas/     top, why, cohort, quota try, usage
    ssh/        ssh
    chaos/      chaos run | list | stop
    credentials/  where credentials come from, where they are kept, and the plugin that kubectl calls
    login, logout, revoke, kubeconfig, connect, slurm, slurmtoken, audit, debug, preflight, images, host, version: the commands
    completion, complete  the script for a shell, and the command that the script calls

    hostfile, connection  the host's kubeconfig, and a client of the host
    access, arrival, tunnel, execcredential, interruption, trouble  what several commands use

The file of a command contains its parser (`add_arguments`), its frozen request, and the function that runs the request. Nothing
is imported here: the command must start fast, and each command loads what it needs.
"""
