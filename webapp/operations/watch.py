"""Says when the platform is ready, then ends as soon as a database does, which stops the whole platform.

    python watch.py --url URL --gateway-port PORT --ready-file FILE --hint TEXT PIDFILE …

A program of its own beside the others, so that `up` needs no threads. Runs as a plain file and imports only the
standard library, because it stays in memory.
"""

import argparse
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


def is_running(pid_file: Path) -> bool:
    """A child of `up` that ended stays listed until `up` itself ends; on Linux its state tells."""
    try:
        pid = int(pid_file.read_text().split()[0])
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs under another account
    except (OSError, ValueError, IndexError):
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--gateway-port", required=True, type=int)
    parser.add_argument("--ready-file", required=True, type=Path, help="gets the address once it answers")
    parser.add_argument("--hint", default="")
    parser.add_argument("databases", nargs="*", type=Path)
    options = parser.parse_args()
    ready = False
    while True:
        if not ready and listens(options.gateway_port) and answers(f"{options.url}/healthz"):
            ready = True
            options.ready_file.write_text(options.url + "\n")
            print(f"Trainmaster is ready at {options.url}", flush=True)
            if options.hint:
                print(options.hint, flush=True)
        for pid_file in options.databases:
            if not is_running(pid_file):
                sys.exit(f"The database in {pid_file.with_suffix('')} has gone.")
        time.sleep(1 if ready else 0.1)


if __name__ == "__main__":
    main()
