# mypy: ignore-errors
"""The peer from PyPI: LitServe with batches of 64 and a wait of 2 ms."""

import sys

import litserve
import torch


class Api(litserve.LitAPI):
    def setup(self, device):
        torch.set_num_threads(1)
        self.module = torch.export.load(sys.argv[1] + "/model.pt2").module()

    def decode_request(self, request):
        return torch.tensor(request["inputs"][0])

    def batch(self, inputs):
        return torch.stack(inputs)

    def predict(self, x):
        with torch.inference_mode():
            return self.module(x)

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"outputs": [output.tolist()]}


if __name__ == "__main__":
    api = Api(max_batch_size=64, batch_timeout=0.002)
    litserve.LitServer(api, accelerator="cpu").run(
        port=int(sys.argv[2]), log_level="error", generate_client_file=False
    )
