"""Run a typical CTranslate2 server: FastAPI and uvicorn as in `zoo serve`, with dynamic batching.

    python -m tests.benchmarks.serve_peer MODEL VOCABULARY PORT [TOKEN]

MODEL is a folder that `zoo export --to ctranslate2` wrote. VOCABULARY is the SentencePiece file of this model. TOKEN is
added before each source, if the model needs a token for the target language. Requests that arrive within 5
milliseconds, or while all workers are busy, form the next batch.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import Any

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI, HTTPException, Request

MAX_BATCH, WAIT_SECONDS, MAX_QUEUE = 32, 0.005, 2_000
BEAM, ALPHA = 4, 1.0


def create_app(model: str, vocabulary: str, *tokens: str) -> FastAPI:
    """Return the web application, which translates with the CTranslate2 model in a folder."""
    threads = os.cpu_count() or 1
    translator = ctranslate2.Translator(model, compute_type="int8", inter_threads=threads, intra_threads=1)
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    queue: asyncio.Queue[tuple[list[str], asyncio.Future[str]]] = asyncio.Queue()
    free = asyncio.Semaphore(threads)

    def translate_batch(batch: list[list[str]]) -> list[str]:
        found = translator.translate_batch(batch, beam_size=BEAM, length_penalty=ALPHA, max_decoding_length=100)
        return [tokenizer.decode(each.hypotheses[0]) for each in found]

    async def run(batch: list[tuple[list[str], asyncio.Future[str]]]) -> None:
        try:
            texts = await asyncio.to_thread(translate_batch, [tokens for tokens, _ in batch])
            for (_, future), text in zip(batch, texts, strict=True):
                if not future.done():
                    future.set_result(text)
        finally:
            free.release()

    async def collect() -> None:
        running = set()
        while True:
            batch = [await queue.get()]
            await free.acquire()
            await asyncio.sleep(WAIT_SECONDS)
            while len(batch) < MAX_BATCH and not queue.empty():
                batch.append(queue.get_nowait())
            task = asyncio.create_task(run(batch))
            running.add(task)
            task.add_done_callback(running.discard)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        collecting = asyncio.create_task(collect())
        yield
        collecting.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def translate(request: Request) -> dict[str, str]:
        if queue.qsize() >= MAX_QUEUE:
            raise HTTPException(429)
        text = (await request.json())["q"]
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        queue.put_nowait(([*tokens, *tokenizer.encode(text, out_type=str), "</s>"], future))
        return {"translatedText": await future}

    return app


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    app = create_app(sys.argv[1], sys.argv[2], *sys.argv[4:])
    uvicorn.run(app, port=int(sys.argv[3]), log_level="warning", http="h11")
