"""The TensorBoard process: `python -m webapp.pages.tensorboard.server`. Knows nothing of the platform.

It reads its options from the first line of standard input, where no list of processes shows them, prints its port, and
ends when standard input closes.
"""

import json
import sys
from urllib.parse import urlsplit

from tensorboard import program


def main() -> None:
    options = json.loads(sys.stdin.readline())
    board = program.TensorBoard()
    # load_fast would start a second program that listens by itself.
    arguments = {"host": "127.0.0.1", "port": "0", "load_fast": "false", **options}
    board.configure(argv=["tensorboard", *(f"--{name}={value}" for name, value in arguments.items())])
    sys.stdout.write(f"{urlsplit(board.launch()).port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
