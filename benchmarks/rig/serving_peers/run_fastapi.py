# mypy: ignore-errors
"""The peer that teams write themselves: FastAPI with a micro-batcher that waits up to 2 ms for 64 requests."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

torch.set_num_threads(1)
module = torch.export.load(sys.argv[1] + "/model.pt2").module()
queue: asyncio.Queue = asyncio.Queue()
pool = ThreadPoolExecutor(1)


class Body(BaseModel):
    inputs: list[list[float]]


def predict(rows):
    with torch.inference_mode():
        return module(torch.tensor(rows)).tolist()


async def batches():
    loop = asyncio.get_running_loop()
    while True:
        waiting = [await queue.get()]
        deadline = loop.time() + 0.002
        while len(waiting) < 64 and (left := deadline - loop.time()) > 0:
            try:
                waiting.append(await asyncio.wait_for(queue.get(), left))
            except TimeoutError:
                break
        outputs = await loop.run_in_executor(pool, predict, [rows[0] for rows, _ in waiting])
        for (_, future), output in zip(waiting, outputs, strict=True):
            future.set_result([output])


@asynccontextmanager
async def lifespan(app):
    task = asyncio.create_task(batches())
    yield
    task.cancel()


application = FastAPI(lifespan=lifespan)


@application.post("/predict")
async def answer(body: Body):
    future = asyncio.get_running_loop().create_future()
    await queue.put((body.inputs, future))
    return {"outputs": await future}


uvicorn.run(application, port=int(sys.argv[2]), log_level="error", access_log=False)
