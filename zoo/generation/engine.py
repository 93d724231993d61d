"""The search engine: a queue of sentences, and worker threads that decode them in continuously refilled batches."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from threading import Condition, Thread, get_ident
from typing import Any, Literal

import torch

from compiler.host import cores
from compiler.program import Scorer, State, StepwiseDecoder
from specs import ZooError
from zoo.generation.batch import Batch
from zoo.generation.batching import Source, max_rows, sentence_out_of_memory
from zoo.generation.hypotheses import Hypothesis, SearchHistory, SearchStrategy
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory

SearchResult = tuple[Source, list[Hypothesis]]
"""A sentence and its hypotheses."""


class Stopped(Exception):
    """Exception that ends a worker thread because the caller no longer wants results."""


class RequestQueue:
    """Queue of sentences that wait for a free row in a batch. All worker threads share it.

    One thread fills the queue (`fill`), and the workers empty it (`take`). A batch holds as many sentences as fit
    `max_batch_tokens`, counting padding. To keep all workers busy, a worker gets at most an equal share of the queued
    tokens.
    """

    def __init__(
        self,
        chunks: Iterable[Sequence[Source]],
        max_batch_tokens: int,
        workers: int = 1,
        request_fill: Callable[[], None] | None = None,
    ) -> None:
        """Create an empty queue.

        Args:
            chunks: The sentences, in chunks that are sorted by length.
            max_batch_tokens: Maximum number of source tokens in a batch, counting padding.
            workers: Number of worker threads.
            request_fill: Function that `take` calls when another chunk is needed. None: `take` reads the chunk itself.
        """
        self.max_batch_tokens = max_batch_tokens
        self._chunks, self._workers, self._request_fill = iter(chunks), workers, request_fill
        self._queue: deque[Source] = deque()
        self._refill_threshold = 0
        self._exhausted = self._stopped = self._fill_requested = False
        self._running_tokens: dict[int, int] = {}  # by thread
        self._last_workers: set[int] = set()  # threads that were the only worker when they last took sentences
        self._changed = Condition()

    @property
    def needs_chunk(self) -> bool:
        """Whether `fill` should read another chunk, because few sentences are left in the queue."""
        return not self._exhausted and len(self._queue) <= self._refill_threshold

    def fill(self) -> None:
        """Read the next chunk into the queue. Only the thread that created the iterable of chunks may call this."""
        chunk = next(self._chunks, None)
        with self._changed:
            if chunk is None:
                self._exhausted = True
            else:
                # Sentences with prefixes of the same length start together.
                self._queue += sorted(chunk, key=lambda s: (-len(s.prefix), -len(s), s.index, s.part))
                self._refill_threshold = len(chunk) // 2 if self._request_fill else 0
            self._fill_requested = False
            self._changed.notify_all()

    def take(self, running: Sequence[Source]) -> list[Source]:
        """Return the sentences that join a worker's batch.

        Blocks if the worker has nothing to do. All returned sentences have prefixes of the same length.

        Args:
            running: The sentences that the worker is decoding. Nothing joins them while less than a quarter of the
                batch is free.

        Returns:
            The sentences, longest first. Empty if the batch is full, or, if `running` is empty, because the queue is
            exhausted and the worker can end.

        Raises:
            Stopped: The caller no longer wants results.
        """
        drained = self._exhausted and not self._queue
        if running and not self._stopped and (drained or not self._has_capacity(running)):
            return []
        with self._changed:
            self._running_tokens[get_ident()] = sum(len(source) for source in running)
            if self._workers == 1:
                self._last_workers.add(get_ident())
            while True:
                if self._stopped:
                    raise Stopped
                if self._request_fill is None:
                    while self.needs_chunk:
                        self.fill()
                elif self.needs_chunk and not self._fill_requested:
                    self._fill_requested = True
                    self._request_fill()
                if self._queue or running:
                    return self._pop(running)
                if self._exhausted:
                    self._retire()
                    return []
                self._changed.wait()

    def put_back(self, sources: Sequence[Source], used_tokens: int) -> bool:
        """Put the sentences of a batch that did not fit into memory back into the queue, and halve the batch size.

        If even a single sentence does not fit while other workers run, the calling worker must end, to free memory.

        Args:
            sources: The sentences of the batch.
            used_tokens: Number of tokens in the batch, counting padding. Later batches get at most half of it.

        Returns:
            Whether the calling worker is still needed.

        Raises:
            ZooError: A sentence does not fit into memory alone.
        """
        with self._changed:
            alone = len(sources) == 1
            if alone and get_ident() in self._last_workers:
                raise sentence_out_of_memory(sources[0])
            self.max_batch_tokens = min(self.max_batch_tokens, max(1, used_tokens // 2))
            self._queue.extendleft(reversed(sources))
            needed = not alone or self._workers == 1
            if not needed:
                self._retire()
            self._running_tokens.pop(get_ident(), None)
            self._changed.notify_all()
            return needed

    def stop(self) -> None:
        """Make all workers end at their next decoding step."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _retire(self) -> None:
        self._workers -= 1
        self._running_tokens.pop(get_ident(), None)

    def _has_capacity(self, running: Sequence[Source]) -> bool:
        rows = max_rows(max(len(source) for source in running), self.max_batch_tokens)
        return rows - len(running) >= max(1, rows // 4)

    def _pop(self, running: Sequence[Source]) -> list[Source]:
        """Take as many sentences from the queue as fit into the worker's batch, up to the worker's share."""
        own_tokens = self._running_tokens[get_ident()]
        known_tokens = sum(self._running_tokens.values()) + sum(len(source) for source in self._queue)
        share = -(-known_tokens // max(1, self._workers))
        longest = max((len(source) for source in running), default=0)
        taken: list[Source] = []
        while self._queue:
            source = self._queue[0]
            longest, rows = max(longest, len(source)), len(running) + len(taken)
            if rows and (rows >= max_rows(longest, self.max_batch_tokens) or own_tokens >= share):
                break
            if taken and len(source.prefix) != len(taken[0].prefix):
                break
            own_tokens += len(source)
            taken.append(self._queue.popleft())
        self._running_tokens[get_ident()] = own_tokens
        return taken


@torch.no_grad()
def run_worker(
    program: StepwiseDecoder[State], queue: RequestQueue, strategy: SearchStrategy, device: torch.device
) -> Iterator[SearchResult]:
    """Decode the sentences of the queue, and yield each result as soon as it is known.

    The result of a sentence is independent of the other sentences in the batch, even if scores are equal. A batch that
    does not fit into memory is split. A sentence has fewer hypotheses than requested only if the search found no more.

    Raises:
        ZooError: A sentence does not fit into memory alone, or the model's probabilities are not usable numbers.
        Stopped: The queue was stopped.
    """
    batch: Batch[State] | None = None
    running: list[Source] = []
    while True:
        joining = queue.take(running)
        running += joining
        if not running:
            return
        done: list[SearchHistory] | None = None
        try:
            batch, done = _advance(program, strategy, batch, joining, device)
        except MEMORY_ERRORS as error:
            if not is_out_of_memory(error):
                raise
        if done is None:  # out of memory; leaving the handler has freed what the failed step allocated
            batch = None
            if not queue.put_back(running, len(running) * max(len(source) for source in running)):
                return
            running = []
            continue
        for history in done:
            yield history.source, history.hypotheses()
        if done:
            finished = {(history.source.index, history.source.part) for history in done}
            running = [source for source in running if (source.index, source.part) not in finished]


def _advance(
    program: StepwiseDecoder[State],
    strategy: SearchStrategy,
    batch: Batch[State] | None,
    joining: list[Source],
    device: torch.device,
) -> tuple[Batch[State] | None, list[SearchHistory]]:
    """Run one decoding step of the batch, and the first step of the joining sentences, which are then added to it.

    Returns:
        The batch, and the histories of the sentences that are done.
    """
    done = batch.step() if batch is not None else []
    if joining:
        new = Batch.start(program, strategy, joining, device)
        done += new.step()
        batch = new if batch is None else batch.join(new)
    return batch if batch is not None and batch.histories else None, done


def resolve_workers(program: Scorer, requested: int | Literal["auto"]) -> int:
    """Return the number of worker threads.

    "auto" means one thread per CPU core if the program computes each batch on one core, and otherwise one thread.

    Raises:
        ZooError: Several workers are requested, but the program cannot run in several threads.
    """
    if requested == "auto":
        return cores() if program.concurrent else 1
    if requested > 1 and not program.concurrent:
        raise ZooError(
            f"`workers` is {requested}, but this backend runs one batch at a time, on all CPU cores",
            hint="set `workers` to `auto`, or use the backend `native`",
        )
    return requested


def search(
    program: StepwiseDecoder[State],
    chunks: Iterable[Sequence[Source]],
    strategy: SearchStrategy,
    max_batch_tokens: int,
    workers: int = 1,
    device: torch.device | str = "cpu",
) -> Iterator[SearchResult]:
    """Search for the hypotheses of every sentence, and yield each result as soon as it is known.

    Chunks are read in the caller's thread whenever the queue is nearly empty. Errors in workers are raised here.

    Args:
        program: The program that computes the probabilities of tokens.
        chunks: The sentences. No two sentences may have the same index and part.
        strategy: Beam search or sampling.
        max_batch_tokens: Maximum number of source tokens in a batch, counting padding.
        workers: Number of worker threads; 1 searches in the caller's thread.
        device: Device of the program.
    """
    device = torch.device(device)
    if workers == 1:
        yield from run_worker(program, RequestQueue(chunks, max_batch_tokens), strategy, device)
        return
    results: SimpleQueue[Any] = SimpleQueue()
    queue = RequestQueue(chunks, max_batch_tokens, workers, request_fill=lambda: results.put(_FILL))
    arguments = (program, queue, strategy, device, results)
    threads = [Thread(target=_work, args=arguments, name=f"search {number}", daemon=True) for number in range(workers)]

    def stop_workers() -> None:
        queue.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()

    # All threads must have left C++ code when Python exits, because ending them there would abort the process.
    atexit.register(stop_workers)
    try:
        queue.fill()
        _start(threads)
        yield from _receive(results, queue, workers)
    finally:  # also on an error, on Ctrl-C, and when the caller closes the generator early
        stop_workers()
        atexit.unregister(stop_workers)


_FILL, _END = "fill", "end"


def _start(threads: Sequence[Thread]) -> None:
    for number, thread in enumerate(threads):
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:  # a limit on processes or memory
            raise ZooError(
                f"only {number} of {len(threads)} workers could be started: {error}",
                hint="set `decoding.workers` to a smaller number",
                exit_code=1,
            ) from error


def _receive(results: SimpleQueue[Any], queue: RequestQueue, working: int) -> Iterator[SearchResult]:
    while working:
        while queue.needs_chunk and results.empty():  # yield available results first, because reading may be slow
            queue.fill()
        message = results.get()
        if isinstance(message, BaseException):
            raise message
        if message is _END:
            working -= 1
        elif message is not _FILL:
            yield message


def _work(
    program: StepwiseDecoder[State],
    queue: RequestQueue,
    strategy: SearchStrategy,
    device: torch.device,
    results: SimpleQueue[Any],
) -> None:
    try:
        for result in run_worker(program, queue, strategy, device):
            results.put(result)
        results.put(_END)
    except Stopped:
        pass
    except BaseException as error:  # pass any error on to the caller
        results.put(error)
