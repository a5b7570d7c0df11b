"""`python -m gpumap`."""

import sys

from gpumap.cli import main

if __name__ == "__main__":
    sys.exit(main())
