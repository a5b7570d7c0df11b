"""The program: `gpumap` and `python -m gpumap`."""

import os
import signal
import sys

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130


def main() -> int:
    """Run the command line as a process: Ctrl-C is quiet from the first import to the last."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda *_: os._exit(_INTERRUPTED))
    try:
        if sys.argv[1:2] == ["exec"] and (done := _exec()) is not None:
            return done
        from gpumap import cli
        from gpumap.app.program import interrupted

        code = cli.main()
        if interrupted():
            os._exit(code)  # what was cut short must not keep the process
    except KeyboardInterrupt:
        return _INTERRUPTED
    else:
        return code
    finally:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)  # the interpreter's own end has nothing to say


def _exec() -> int | None:
    """Become the command of `gpumap exec`; return None where click is needed for that."""
    from gpumap.app import shortcut

    try:
        return shortcut.start(sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - the last net is there
        from gpumap import cli

        return cli.failed(error, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
