"""The old name of `workstation.cli.main`, kept for one release: kubeconfigs that people hold call it for credentials."""

import sys

from workstation.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
