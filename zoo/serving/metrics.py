"""Metrics of the server in the format of Prometheus."""

from __future__ import annotations

import logging
from collections import Counter as Counts
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LOG = logging.getLogger("zoo.serving")
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """Metrics of one server.

    Attributes:
        statuses: Number of requests for each status since the last `log_statuses`, without those for monitoring.
    """

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self.statuses: Counts[int] = Counts()
        self.requests = Counter("zoo_requests", "Requests by path and status.", ["path", "status"], registry=own)
        self.seconds = Histogram("zoo_request_seconds", "Time to answer.", ["path"], buckets=_SECONDS, registry=own)
        self.rejected = Counter("zoo_rejected", "Rejected requests by reason.", ["reason"], registry=own)
        self.texts = Counter("zoo_texts", "Translated texts by model.", ["model"], registry=own)
        self.sentences = Counter("zoo_sentences", "Lines given to a model.", ["model"], registry=own)
        self.tokens = Counter("zoo_tokens", "Tokens of the best translations.", ["model"], registry=own)
        self.disconnected = Counter("zoo_disconnected", "Clients that closed the connection early.", registry=own)

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a metric whose value is computed when the metrics are read."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def log_statuses(self) -> None:
        """Log the number of requests for each status. Log nothing if there were no requests."""
        counts, self.statuses = self.statuses, Counts()
        if counts:
            listed = ", ".join(f"{count} with status {status}" for status, count in sorted(counts.items()))
            LOG.info("%d requests: %s", counts.total(), listed)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
