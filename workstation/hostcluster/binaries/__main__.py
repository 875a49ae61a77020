"""`python -m workstation.hostcluster.binaries [COMPONENT…]`: download or build binaries (default: all), with progress."""

import argparse
import sys

from workstation.hostcluster.binaries import COMPONENTS, ensure
from workstation.hostcluster.progress import Reporter


def main() -> int:
    """Fetch the named binaries; exit code 0 if all of them are available."""
    parser = argparse.ArgumentParser(prog="workstation.hostcluster.binaries", description="Fetch or build the host's binaries.")
    parser.add_argument("components", nargs="*", metavar="COMPONENT", help=f"of {', '.join(COMPONENTS)} (default: all)")
    wanted = parser.parse_args().components or list(COMPONENTS)
    if unknown := sorted(set(wanted) - set(COMPONENTS)):
        parser.error(f"no component is called {', '.join(unknown)}; the components are: {', '.join(COMPONENTS)}")
    try:
        with Reporter() as report:
            for name in wanted:
                report.step(f"Fetching {name}")
                ensure(name, report)
    except (RuntimeError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
