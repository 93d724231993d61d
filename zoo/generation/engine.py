"""Decoding engine: worker threads that decode the sentences from all callers in continuously refilled batches.

An `Engine` belongs to one compiled model and lives as long as this model. Callers add sentences to its `RequestQueue`,
and its workers take them from there. Each worker has one running batch for each batch key (see `BeamSearch.batch_key`),
and runs one or a few steps of each batch in turn. Sentences of different callers share a batch, even if their beam
sizes, stopping rules or length penalties differ. Finished sentences leave a batch, and waiting sentences join it.

An error only affects the request that causes it. If a step with sentences of several requests fails, each of these
requests is decoded again in separate batches.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, Generic, Literal, cast
from weakref import WeakSet

from compiler.host import cores
from compiler.program import Scorer, State, StepwiseDecoder
from specs import ZooError
from zoo.generation.batch import Batch, ProgramBatch, start_batch
from zoo.generation.hypotheses import SearchHistory, SearchStrategy
from zoo.generation.request_queue import Request, RequestQueue
from zoo.generation.translation import Hypothesis, SearchInput
from zoo.system.memory import is_out_of_memory

if TYPE_CHECKING:
    import torch

SearchResult = tuple[SearchInput, list[Hypothesis]]
"""A sentence and its hypotheses."""


class Engine(AbstractContextManager["Engine"]):
    """Engine that runs searches with a compiled model. Several threads can use it at the same time.

    Worker threads start when they are first needed. They end when the engine is closed or garbage-collected, or when
    Python exits. A forked child process starts its own threads, and does not get the results of its parent's requests.

    The result for a sentence does not depend on any other sentence, even if hypotheses have equal scores. A batch that
    does not fit into memory is split.
    """

    def __init__(
        self,
        program: StepwiseDecoder[Any],
        device: torch.device | str = "cpu",
        *,
        workers: int = 1,
        max_batch_tokens: int,
    ) -> None:
        """Create an engine. Its worker threads start later, when they are first needed.

        Args:
            program: Compiled model that computes the probabilities of tokens.
            device: Device of the compiled model.
            workers: Maximum number of worker threads.
            max_batch_tokens: Maximum total number of source tokens in the batches of a worker, including padding.
        """
        self.queue = RequestQueue(max_batch_tokens)
        self.program, self.device, self.workers = program, device, workers
        _QUEUES.add(self.queue)

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.queue.stop()  # do not wait for the threads: this may run in one of them

    def close(self) -> None:
        """Make all unfinished requests fail, and wait until the worker threads have ended."""
        self.queue.stop()
        for thread in self.queue.threads:
            thread.join()

    def submit(self, sources: Sequence[SearchInput], strategy: SearchStrategy) -> Future[list[list[Hypothesis]]]:
        """Start decoding sentences, and immediately return a future with their hypotheses.

        Cancelling the future removes its sentences from the queue immediately, and from batches within a few steps.

        Args:
            sources: The sentences. The combination of `index` and `part` must be unique.
            strategy: Beam search or sampling.

        Returns:
            A future with the hypotheses for each sentence. A sentence has fewer hypotheses than requested if the search
            finds no more. The future raises a ZooError if a sentence does not fit into memory even in a batch of its
            own, or if the model's log-probabilities are NaN or infinite.
        """
        future: Future[list[list[Hypothesis]]] = Future()
        if not sources:
            future.set_result([])
            return future
        found: dict[tuple[int, int], list[Hypothesis]] = {}

        def deliver(source: SearchInput, hypotheses: list[Hypothesis]) -> None:
            found[source.index, source.part] = hypotheses
            if len(found) == len(sources):
                with suppress(InvalidStateError):  # the future was cancelled, or another thread has set its result
                    future.set_result([found[source.index, source.part] for source in sources])

        def fail(error: BaseException) -> None:
            with suppress(InvalidStateError):
                future.set_exception(error)

        request = Request(strategy, deliver, fail)
        future.add_done_callback(lambda _: self.queue.withdraw(request))
        future.add_done_callback(notify_if_cancelled)
        self._add(request, sources)
        return future

    def search(
        self, chunks: Iterable[Sequence[SearchInput]], strategy: SearchStrategy
    ) -> Generator[SearchResult, None, None]:
        """Decode sentences. Yield each sentence with its hypotheses as soon as its search has ended.

        Chunks are read in the caller's thread, whenever half of the last chunk's sentences have left the queue.
        Errors in worker threads are raised by this method. Closing the returned Python generator ends the search.

        Args:
            chunks: The sentences in chunks. The combination of `index` and `part` must be unique.
            strategy: Beam search or sampling.

        Raises:
            ZooError: A sentence does not fit into memory even in a batch of its own, the model's log-probabilities are
                NaN or infinite, or a worker thread of this engine calls this method.
        """
        if current_thread() in self.queue.threads:
            problem = "a callback of a future waits for a search with the same model, but this search would never begin"
            raise ZooError(problem, hint="call `submit` in the callback, or translate in another thread")
        results: SimpleQueue[SearchResult | BaseException | None] = SimpleQueue()
        request = Request(strategy, lambda *result: results.put(result), results.put, lambda: results.put(None))
        unread, unfinished, exhausted = iter(chunks), 0, False
        try:
            while True:
                # Yield available results first, because reading may be slow.
                while not exhausted and len(request.queue) <= request.refill_threshold and results.empty():
                    if exhausted := (chunk := next(unread, None)) is None:
                        break
                    unfinished += len(chunk)
                    self._add(request, chunk)
                if exhausted and not unfinished:
                    return
                message = results.get()
                if isinstance(message, BaseException):
                    raise message
                if message is not None:
                    unfinished -= 1
                    yield message
        finally:  # also on an error, on Ctrl-C, and when the caller closes the generator early
            self.queue.withdraw(request)

    def _add(self, request: Request, sources: Sequence[SearchInput]) -> None:
        """Add sentences to the queue, and start worker threads if more are needed."""
        queue = self.queue
        with queue.changed:  # all threads start before the first of them takes its share of the sentences
            queue.add(request, sources)
            missing = min(self.workers - len(queue.threads), queue.missing_workers)
            for number in range(len(queue.threads), len(queue.threads) + missing):
                worker = _Worker(self.program, queue, self.device)
                thread = Thread(target=worker.run, name=f"search {number}", daemon=True)
                try:
                    thread.start()
                except (RuntimeError, MemoryError) as error:  # a limit on processes or memory
                    queue.withdraw(request)
                    raise ZooError(
                        f"only {number} of {self.workers} worker threads could be started: {error}",
                        hint="set `decoding.workers` to a smaller number",
                        exit_code=1,
                    ) from error
                queue.threads.append(thread)


class _Worker(Generic[State]):
    """Worker thread that decodes sentences in batches. It has a separate batch for each value of `Request.batch_key`.

    While a worker waits, it must not hold a reference to a request, because the request refers to the engine. Otherwise
    the engine could not be garbage-collected. Therefore the loop in `run` has no local variables.
    """

    def __init__(self, program: StepwiseDecoder[State], queue: RequestQueue, device: torch.device | str) -> None:
        self._program, self._queue, self._device = program, queue, device
        self._batches: dict[Hashable, Batch[State] | ProgramBatch[State]] = {}
        self._running: dict[Hashable, dict[SearchHistory, Request]] = {}
        """Sentences without a result, keyed by batch key. Some sentences may already have left the batch."""

    def run(self) -> None:
        """Decode sentences until the queue is stopped."""
        try:
            while True:
                self._run_steps()
        except BaseException as failure:  # pass any error on to the callers
            error = None if self._queue.stopped else failure
            self._queue.stop(error)
            for members in self._running.values():
                for request in members.values():
                    self._queue.fail(request, error)
            self._running.clear()
            self._batches.clear()

    def _run_steps(self) -> None:
        """Take sentences from the queue, and run one or a few decoding steps for each batch."""
        self._drop_cancelled()
        joining = self._queue.take(self._running)
        joining_key = joining[0][0].batch_key if joining else None
        joining_rows = max((request.strategy.rows for request, _ in joining), default=0)
        for key in list(self._batches):
            self._attempt(key, partial(self._step, key, joining_rows if key == joining_key else 0))
        if joining:
            histories = {request.strategy.new_history(source): request for request, source in joining}
            self._running.setdefault(joining_key, {}).update(histories)
            self._attempt(joining_key, partial(self._start, joining_key, list(histories)), list(histories))

    def _step(self, key: Hashable, min_rows: int) -> None:
        batch = self._batches.pop(key)
        self._deliver(key, batch.step(min_rows))
        if batch.histories:
            self._batches[key] = batch

    def _start(self, key: Hashable, histories: Sequence[SearchHistory]) -> None:
        """Encode the sentences, and add them to the running batch with this batch key. If there is none, start it."""
        new = start_batch(self._program, histories, self._device)
        self._deliver(key, new.prepare_to_join(self._batches[key].rows if key in self._batches else 0))
        if new.histories:
            batch = self._batches.pop(key, None)
            self._batches[key] = new if batch is None else batch.join(cast(Any, new))

    def _attempt(self, key: Hashable, action: Callable[[], None], joining: Sequence[SearchHistory] = ()) -> None:
        """Run a function. If it fails, put the affected sentences back into the queue, or make their requests fail.

        Args:
            key: Batch key of the sentences.
            action: Function to run. It removes the batch with this key from `_batches` before changing the batch.
            joining: The sentences to add to the batch. If the action fails before it changes the batch, only these
                sentences are affected.
        """
        failure: Exception | None = None
        try:
            action()
            return
        except Exception as error:
            if not is_out_of_memory(error):
                failure = error
        # Leaving the handler has freed what the failed step allocated.
        members = self._running[key]
        lost = [history for history in (joining if key in self._batches else members) if history in members]
        sentences = [(members[history], history.source) for history in lost]
        requests = {request for request, _ in sentences}
        if failure is None:
            failure = self._queue.put_back_out_of_memory(sentences, self._running)
        elif len(requests) > 1:
            for request in requests:
                request.batch_key = (request.batch_key, id(request))  # from now on, in separate batches
            self._queue.put_back(sentences)
            failure = None
        for history in lost:
            del members[history]
        if failure is not None:
            for request in requests:
                self._queue.fail(request, failure)

    def _deliver(self, key: Hashable, done: Sequence[SearchHistory]) -> None:
        for history in done:
            request = self._running[key].pop(history)
            if request.active:
                try:
                    request.deliver(history.source, history.hypotheses())
                except Exception as error:
                    self._queue.fail(request, error)

    def _drop_cancelled(self) -> None:
        """Stop decoding the sentences of cancelled requests. Each batch removes their rows in its next step."""
        for key, members in list(self._running.items()):
            for history in [history for history, request in members.items() if not request.active]:
                history.stop_reason = "cancelled"
                del members[history]
            if not members:
                del self._running[key]
                if (batch := self._batches.pop(key, None)) is not None:
                    batch.abandon()


_QUEUES: WeakSet[RequestQueue] = WeakSet()


@atexit.register
def _end_threads() -> None:
    """Wait at exit until all worker threads end. If Python stopped a thread in C++ code, the process would abort."""
    queues = list(_QUEUES)
    for queue in queues:
        queue.stop()
    for queue in queues:
        for thread in queue.threads:
            thread.join()


def _reset_queues() -> None:
    """Reset all queues in a forked child process, because the parent's worker threads may have held the locks."""
    for queue in list(_QUEUES):
        queue.reset()


os.register_at_fork(after_in_child=_reset_queues)


def notify_if_cancelled(future: Future[Any]) -> None:
    """Wake the threads that wait for a future in `concurrent.futures.wait`, if the future was cancelled."""
    if future.cancelled():
        future.set_running_or_notify_cancel()


def resolve_workers(program: Scorer, requested: int | Literal["auto"]) -> int:
    """Return the number of worker threads for an engine.

    "auto" means one thread per CPU core if the compiled model runs each batch on a single core. Otherwise, it means
    one thread.

    Raises:
        ZooError: Several workers are requested, but only one thread at a time can use the compiled model.
    """
    if requested == "auto":
        return cores() if program.concurrent else 1
    if requested > 1 and not program.concurrent:
        raise ZooError(
            f"`workers` is {requested}, but this backend runs one batch at a time, on all CPU cores",
            hint="set `workers` to `auto`, or use the `native` backend",
        )
    return requested
