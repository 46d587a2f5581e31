"""`python -m reconciler` and the `reconciler` command."""

import signal
import sys


def main() -> None:
    """Run the command line and exit with its documented code."""
    from reconciler.cli.main import Terminated, run  # noqa: PLC0415 - imports nothing until the arguments are known

    def terminate(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
