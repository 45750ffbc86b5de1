"""A mail server that does as it is told: takes mail, refuses an address, stops in the middle."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from email.message import Message


class MailServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Conversation)
        self.taken: list[Message] = []
        self.refused: dict[str, str] = {}  # address → what is answered to it
        self.at_data = "354 go on"  # what is answered to DATA

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 mail.example.org")
        while line := self.rfile.readline().decode().strip():
            verb, _, rest = line.partition(" ")
            match verb.upper():
                case "RCPT":
                    address = rest.partition("<")[2].rstrip(">")
                    self._say(self.server.refused.get(address, "250 ok"))
                case "DATA":
                    self._say(self.server.at_data)
                    if self.server.at_data.startswith("354"):
                        self._take()
                        self._say("250 taken")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 ok")

    def _take(self) -> None:
        lines = []
        while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
            lines.append(line)
        self.server.taken.append(message_from_string("\n".join(lines)))

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def running(port: int = 0) -> Iterator[MailServer]:
    with MailServer(port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
