"""`python -m vllm.entrypoints.openai.api_server`: the options, addresses, documents and events of vLLM's server.

A prompt "n" is completed by "n0 n1 …", a token each.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    options: argparse.Namespace

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer({})
        elif self.path == "/v1/models":
            name = self.options.served_model_name
            model = {
                "id": name,
                "object": "model",
                "created": 1,
                "owned_by": "vllm",
                "root": name,
                "parent": None,
            }
            self._answer({"object": "list", "data": [model | {"gpus": self.options.tensor_parallel_size}]})
        else:
            self._refuse(404, "NotFoundError", "Not Found")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked.get("model", self.options.served_model_name) != self.options.served_model_name:
            self._refuse(404, "NotFoundError", f"The model `{asked['model']}` does not exist.")
        elif self.path == "/v1/chat/completions":
            message = asked["messages"][-1] | {"role": "assistant"}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
            self._answer(self._head("chat.completion") | {"choices": [choice]})
        elif not isinstance(asked.get("prompt"), str):
            self._refuse(400, "BadRequestError", "prompt: Input should be a valid string")
        elif asked["prompt"] == "end":
            os._exit(3)
        else:
            self._complete(
                [f"{asked['prompt']}{number} " for number in range(asked.get("max_tokens", 16))], asked
            )

    def _complete(self, tokens: list[str], asked: dict[str, Any]) -> None:
        head = self._head("text_completion")
        if asked.get("stream"):
            self._stream(head, tokens)
            return
        usage = {"prompt_tokens": 1, "completion_tokens": len(tokens), "total_tokens": 1 + len(tokens)}
        choice = self._choice("".join(tokens), "length")
        self._answer(head | {"choices": [choice], "usage": usage, "secret": self.headers["authorization"]})

    def _stream(self, head: dict[str, Any], tokens: list[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.end_headers()
        for number, token in enumerate(tokens, 1):
            choice = self._choice(token, "length" if number == len(tokens) else None)
            self.wfile.write(f"data: {json.dumps(head | {'choices': [choice]})}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _head(self, kind: str) -> dict[str, Any]:
        name = self.options.served_model_name
        return {"id": "cmpl-1", "object": kind, "created": int(time.time()), "model": name}

    @staticmethod
    def _choice(text: str, finish: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}

    def _refuse(self, status: int, kind: str, message: str) -> None:
        error = {"message": message, "type": kind, "param": None, "code": status}
        self._answer({"error": error}, status)

    def _answer(self, document: Any, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, required=True)
    options = parser.parse_args()
    if not (options.model / "config.json").exists():
        raise SystemExit(f"{options.model} has no config.json")
    Handler.options = options
    ThreadingHTTPServer((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
