"""Queue in which the sentences from all callers wait for a free row in a batch."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread, get_ident

from specs import ZooError
from zoo.generation.hypotheses import SearchHistory, SearchStrategy
from zoo.generation.translation import MIN_ROW_TOKENS, Hypothesis, SearchInput
from zoo.text.sentences import excerpt

RECENT_SECONDS = 4.0
"""Number of seconds after which earlier measurements of the queue's speed count only half."""


@dataclass(eq=False)
class Request:
    """Sentences from one caller, which are decoded with one search strategy.

    Attributes:
        strategy: Beam search or sampling.
        deliver: Function that worker threads call with each sentence and its hypotheses.
        fail: Function that is called with the error that ended the request. It may be called more than once.
        request_fill: Function that is called when half of the sentences that were last added have left the queue.
        batch_key: Initially the batch key of the strategy. Requests with the same key share batches.
        queue: The waiting sentences, in the order in which they will be decoded.
        refill_threshold: Number of waiting sentences at which `request_fill` is called.
        served_tokens: Number of tokens in the sentences that have left the queue. The waiting request with the smallest
            number is served first.
        active: Whether the caller still wants results.
        added: Time at which the request was added, in seconds. None after its first sentence has left the queue.
    """

    strategy: SearchStrategy
    deliver: Callable[[SearchInput, list[Hypothesis]], None]
    fail: Callable[[BaseException], None]
    request_fill: Callable[[], None] = lambda: None
    queue: deque[SearchInput] = field(default_factory=deque)
    refill_threshold: int = 0
    served_tokens: float = 0.0
    active: bool = True

    def __post_init__(self) -> None:
        self.batch_key: Hashable = self.strategy.batch_key
        self.added: float | None = time.monotonic()


Running = Mapping[Hashable, Mapping[SearchHistory, Request]]
"""The sentences that a worker is decoding: its batches, keyed by batch key."""
Sentence = tuple[Request, SearchInput]


class RequestQueue:
    """Queue of sentences that wait for a free row in a batch. All callers and all worker threads share it.

    Callers fill the queue (`add`), and the workers empty it (`take`). The batches of a worker together hold as many
    sentences as fit into `max_batch_tokens`, including padding. To keep all workers busy, a worker gets at most an
    equal share of the queued tokens.

    Waiting requests are served in turn, so that all of them get the same number of tokens (`served_tokens`). For a new
    request, `served_tokens` starts at the value that it would have if the request had waited from the beginning.
    Therefore a new request does not wait for long requests to end, and a stream of new requests cannot starve older
    requests.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        """Create an empty queue.

        Args:
            max_batch_tokens: Maximum number of source tokens in the batches of a worker, including padding.
        """
        self._initial_max_batch_tokens, self.stopped = max_batch_tokens, False
        self.reset()

    def reset(self) -> None:
        """Forget all requests, threads and locks. A forked child process does not have its parent's threads."""
        self.max_batch_tokens = self._initial_max_batch_tokens
        self.changed = Condition()
        self.threads: list[Thread] = []
        self._waiting: dict[Request, None] = {}  # requests with sentences in the queue, in order of arrival
        self._queued_tokens = self._idle_workers = 0
        self._fair_share_tokens = 0.0  # `served_tokens` of a request that has waited from the beginning
        self._busy_seconds = 0.0  # recent time during which sentences waited
        self._busy_tokens = 0  # tokens that left the queue in `_busy_seconds`
        self._busy_since: float | None = None  # when `_busy_seconds` was last updated
        self._running_tokens: dict[int, int] = {}  # by thread: tokens of the sentences that it is decoding
        self._parked: set[int] = set()  # threads that are not used, because there is not enough memory for them
        self._took_alone: dict[int, bool] = {}  # by thread: whether it was the only worker when it took sentences

    @property
    def missing_workers(self) -> int:
        """Number of worker threads that must be started so that each waiting sentence has its own thread."""
        return self._queued_sentences - self._idle_workers

    @property
    def waiting_seconds(self) -> float:
        """Estimated time in seconds until a worker takes the first sentence of a new request.

        It is at least the waiting time of the oldest request whose sentences are all still waiting. It is 0 if there is
        no such request.
        """
        with self.changed:
            added = next((request.added for request in self._waiting if request.added is not None), None)
            # A new request waits for about one sentence of each waiting request, because requests are served in turn.
            tokens = len(self._waiting) * self._queued_tokens / max(1, self._queued_sentences)
            expected = tokens * self._busy_seconds / max(1, self._busy_tokens)
        return 0.0 if added is None else max(expected, time.monotonic() - added)

    @property
    def _queued_sentences(self) -> int:
        return sum(len(request.queue) for request in self._waiting)

    def add(self, request: Request, sources: Sequence[SearchInput]) -> None:
        """Add sentences to a request, after the sentences that earlier calls have added.

        Raises:
            ZooError: The engine is closed.
        """
        with self.changed:
            if self.stopped:
                raise closed_error()
            if not self._waiting and not any(self._running_tokens.values()):  # there may be enough memory again
                self.max_batch_tokens = self._initial_max_batch_tokens
                self._parked.clear()
                self._queued_tokens = 0  # in case Ctrl-C interrupted this function
            # Sentences with prefixes of the same length start together.
            by_length = sorted(sources, key=lambda s: (-len(s.prefix), -len(s), s.index, s.part))
            if not request.queue:
                request.served_tokens = max(request.served_tokens, self._fair_share_tokens)
            request.refill_threshold = len(sources) // 2
            request.queue += by_length
            self._waiting_again(request, by_length)

    def withdraw(self, request: Request) -> None:
        """Remove a request. Workers drop its sentences before their next decoding step."""
        with self.changed:
            request.active = False
            request.deliver = request.fail = request.request_fill = _ignore  # the caller can be garbage-collected
            self._waiting.pop(request, None)
            self._queued_tokens -= sum(map(len, request.queue))
            request.queue.clear()

    def fail(self, request: Request, error: BaseException | None) -> None:
        """End a request with an error. If `error` is None, use a new error that reports a closed engine."""
        request.fail(error or closed_error())
        self.withdraw(request)

    def take(self, running: Running) -> list[Sentence]:
        """Take sentences from the queue for a worker. All of them have the same batch key and prefix length.

        If the worker has nothing to do, wait for sentences.

        Args:
            running: The sentences that the worker is decoding. No sentence joins a batch while less than a quarter of
                the batch is free.

        Returns:
            The sentences. Empty if no sentence can join now.

        Raises:
            ZooError: The engine is closed.
        """
        if running and not self.stopped and not self._waiting:
            return []
        worker = get_ident()
        with self.changed:
            self._running_tokens[worker] = sum(len(each.source) for members in running.values() for each in members)
            while not self.stopped:
                if self._waiting and worker not in self._parked:
                    return self._pop(worker, running)
                if running:
                    return []
                self._idle_workers += 1
                self.changed.wait()
                self._idle_workers -= 1
            raise closed_error()

    def put_back(self, sentences: Sequence[Sentence]) -> None:
        """Put undecoded sentences back at the front of the queue."""
        with self.changed:
            for request, source in reversed(sentences):
                if request.active:
                    request.queue.appendleft(source)
                    request.served_tokens -= len(source)
                    self._waiting_again(request, [source])

    def put_back_out_of_memory(self, sentences: Sequence[Sentence], running: Running) -> ZooError | None:
        """Put sentences that did not fit into memory back into the queue, and halve the size of batches.

        If even a single sentence does not fit while other workers run, the calling worker is paused to free memory.

        Args:
            sentences: The sentences that did not fit.
            running: All sentences that the worker was decoding. Later batches have at most half as many tokens.

        Returns:
            None if the sentences were put back. An error if a single sentence does not fit into memory.
        """
        worker = get_ident()
        with self.changed:
            alone = sum(map(len, running.values())) == 1
            if alone and self._took_alone[worker]:
                source = sentences[0][1]
                return ZooError(
                    f"there is not enough memory for input {source.index + 1:,}, even in a batch of its own: "
                    f"{excerpt(source.text)}, length {len(source):,} (in tokens or frames)",
                    hint="split the input, use a smaller beam, or close other programs",
                    exit_code=1,
                )
            used_tokens = sum(_padded_tokens(members) for members in running.values())
            self.max_batch_tokens = min(self.max_batch_tokens, max(1, used_tokens // 2))
            self.put_back(sentences)
            if alone and len(self.threads) - len(self._parked) > 1:
                self._parked.add(worker)
            return None

    def stop(self, error: BaseException | None = None) -> None:
        """Make all workers end before their next decoding step. Unfinished requests fail (see `fail`)."""
        with self.changed:
            self.stopped = True
            requests = list(self._waiting)
            self.changed.notify_all()
        for request in requests:
            self.fail(request, error)

    def _waiting_again(self, request: Request, added: Sequence[SearchInput]) -> None:
        self._queued_tokens += sum(map(len, added))
        if not self._waiting:  # measure the speed again
            self._busy_since, self._busy_seconds, self._busy_tokens = None, 0.0, 0
        if request.queue:
            self._waiting[request] = None
        self.changed.notify_all()

    def _pop(self, worker: int, running: Running) -> list[Sentence]:
        """Take as many sentences from the queue as fit into the worker's batches, but at most its share of the work."""
        workers = len(self.threads) - len(self._parked)
        self._took_alone[worker] = workers == 1
        own_tokens = self._running_tokens[worker]
        share = -(-(sum(self._running_tokens.values()) + self._queued_tokens) // max(1, workers))
        first = min(self._waiting, key=lambda request: request.served_tokens)
        key, prefix_length = first.batch_key, len(first.queue[0].prefix)
        members = running.get(key, {})
        capacity = self.max_batch_tokens - sum(_padded_tokens(running[other]) for other in running if other != key)
        rows, longest = len(members), max((len(each.source) for each in members), default=0)
        max_rows = capacity // max(longest, MIN_ROW_TOKENS)
        if members and max_rows - rows < max(1, max_rows // 4):
            return []
        matching = [
            (request.served_tokens, number, request)
            for number, request in enumerate(self._waiting)
            if request.batch_key == key and len(request.queue[0].prefix) == prefix_length
        ]
        heapq.heapify(matching)
        taken: list[Sentence] = []
        while matching:
            served, number, request = heapq.heappop(matching)
            source = request.queue[0]
            longest, rows = max(longest, len(source), MIN_ROW_TOKENS), rows + 1
            if (running or taken) and (rows * longest > capacity or own_tokens >= share):
                break
            own_tokens += len(source)
            taken.append((request, request.queue.popleft()))
            request.added = None
            self._queued_tokens -= len(source)
            self._fair_share_tokens += len(source) / len(self._waiting)
            request.served_tokens = served + len(source)
            if len(request.queue) == request.refill_threshold:
                request.request_fill()
            if not request.queue:
                del self._waiting[request]
            if request.queue and len(request.queue[0].prefix) == prefix_length:
                heapq.heappush(matching, (request.served_tokens, number, request))
        self._running_tokens[worker] = own_tokens
        self._update_speed(sum(len(source) for _, source in taken))
        return taken

    def _update_speed(self, taken_tokens: int) -> None:
        """Update the measured speed at which tokens leave the queue while sentences wait."""
        now = time.monotonic()
        if self._busy_since is not None:  # idle workers take the first sentences immediately
            self._busy_seconds += now - self._busy_since
            self._busy_tokens += taken_tokens
        self._busy_since = now
        if self._busy_seconds > RECENT_SECONDS:
            self._busy_seconds, self._busy_tokens = self._busy_seconds / 2, self._busy_tokens // 2


def _ignore(*_: object) -> None:
    pass


def closed_error() -> ZooError:
    """Return the error for a request to a closed engine."""
    return ZooError("the model is closed", hint="open the model again with `zoo.load(NAME)`", exit_code=1)


def _padded_tokens(members: Collection[SearchHistory]) -> int:
    """Return the number of source tokens in a batch, including padding."""
    return len(members) * max((*(len(each.source) for each in members), MIN_ROW_TOKENS))
