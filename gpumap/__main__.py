"""The program: `gpumap` and `python -m gpumap`."""

import signal
import sys


def main() -> int:
    """Run the command line as a process: Ctrl-C is quiet from the first import to the last."""
    try:
        from gpumap import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the interpreter's own end has nothing to say


if __name__ == "__main__":
    sys.exit(main())
