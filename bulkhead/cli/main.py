"""The old name of `workstation.cli.main`, kept for one release: kubeconfigs that people hold call it for credentials."""

from workstation.cli.main import main, program

__all__ = ["main", "program"]

if __name__ == "__main__":
    program()
