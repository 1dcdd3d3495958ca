"""`python -m hotlap` is `hotlap`."""

import sys

from hotlap.cli import main

if __name__ == "__main__":
    sys.exit(main())
