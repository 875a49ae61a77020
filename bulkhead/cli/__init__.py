"""Where the command line lived until 0.1; kubeconfigs that people already hold name it as `python -m bulkhead.cli.main`."""
