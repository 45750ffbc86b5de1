# mypy: ignore-errors
"""The same model behind the same ASGI server without batches: one request, one call of the model."""

import json
import sys

import torch
import uvicorn

torch.set_num_threads(1)
module = torch.export.load(sys.argv[1] + "/model.pt2").module()


def predict(rows: list[list[float]]) -> list[list[float]]:
    with torch.inference_mode():
        output: list[list[float]] = module(torch.tensor(rows)).tolist()
        return output


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    answer = json.dumps({"outputs": predict(json.loads(body)["inputs"])}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


uvicorn.run(application, port=int(sys.argv[2]), log_level="error", access_log=False, lifespan="off")
