"""`python -m vllm.entrypoints.openai.api_server`: repeats prompts as vLLM would answer them."""

from __future__ import annotations

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    options: argparse.Namespace

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer({})
        elif self.path == "/v1/models":
            model = {"id": self.options.served_model_name, "gpus": self.options.tensor_parallel_size}
            self._answer({"object": "list", "data": [model]})
        else:
            self._answer({"error": "not found"}, 404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked["model"] != self.options.served_model_name:
            self._answer({"error": f"The model {asked['model']} does not exist."}, 404)
        elif asked.get("prompt") == "end":
            os._exit(3)
        elif asked.get("stream"):
            self._stream(asked["prompt"].split())
        elif self.path == "/v1/chat/completions":
            self._answer({"choices": [{"message": asked["messages"][-1] | {"role": "assistant"}}]})
        else:
            self._answer({"choices": [{"text": asked["prompt"]}], "secret": self.headers["authorization"]})

    def _stream(self, words: list[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in words:
            self.wfile.write(f"data: {word}\n\n".encode())
            self.wfile.flush()

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
