"""Serves a checkpoint of bytelm: it completes a text byte by byte.

python -m trainmaster.serving CHECKPOINT --runtime python --entry serve:Model
curl http://127.0.0.1:8080/v1/completions -d '{"prompt": "def ", "max_tokens": 100}'
"""

import codecs
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import train

import trainmaster


class Model:
    def __init__(self, folder: Path) -> None:
        state = trainmaster.read_checkpoint(folder)
        self.config = train.Config(**state["config"])
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = train.ByteGPT(self.config).eval()
        self.model.load_state_dict(state["model"])
        self.model.to(self.device)

    @torch.inference_mode()
    def stream(self, request: dict[str, Any]) -> Iterator[str]:
        """One part a byte; a character of several bytes comes with its last one."""
        seed = request["seed"] if request["seed"] is not None else secrets.randbits(32)
        random = torch.Generator(self.device).manual_seed(seed)
        text, decode = (
            list(request["prompt"].encode() or b"\n"),
            codecs.getincrementaldecoder("utf-8")("replace"),
        )
        written = ""
        for _ in range(request["max_tokens"]):
            logits = self.model(torch.tensor([text[-self.config.context :]], device=self.device))[0, -1]
            if request["temperature"]:
                weights = torch.softmax(logits / request["temperature"], 0)
                text.append(int(torch.multinomial(weights, 1, generator=random)))
            else:
                text.append(int(logits.argmax()))
            part = decode.decode(bytes(text[-1:]))
            written += part
            if any(written.endswith(stop) for stop in request["stop"]):
                return
            yield part
