"""Shared fixtures: a toy program, reports that record messages, small specs, random trees, a local web server, and a
reader of HTML pages.
"""

import functools
import http.server
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import specs
from compiler.decoder import top_k
from specs import EOS, PAD, UNK, Spec
from tests.zoo.models.registries.processes import SUMMARY
from zoo.files import manifest
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import Engine
from zoo.generation.scoring import TokenScores
from zoo.generation.translation import SearchInput, Translation
from zoo.generation.translator import Translator
from zoo.models.registries.revision import Summary
from zoo.report import Progress, Report
from zoo.text.trees.tree import Tree, leaf, node, with_root


class ToyState:
    """Decoder state: the sources, and the tokens of each of their rows, with BOS. A state may be used once only."""

    def __init__(self, sources, rows):
        assert len(sources) == len(rows)
        assert len(set(map(len, rows))) == 1, "all sentences have the same number of rows"
        self.sources, self.rows, self.used = sources, rows, False

    def use(self):
        assert not self.used, "a state was used twice"
        self.used = True
        return self.sources, self.rows


class ToyProgram:
    """Program with random log-probabilities, in plain Python.

    Log-probabilities are multiples of 1/64, so that sums are exact in any order. Few `levels` make many ties.
    `overriding` maps a prefix (without BOS) to a row of log-probabilities.
    """

    concurrent = False

    def __init__(self, vocabulary=7, seed=0, levels=200, overriding=None):
        self.vocabulary, self.seed, self.levels = vocabulary, seed, levels
        self.overriding = overriding or {}
        self.encoded: list[tuple[int, int]] = []  # shape of each source
        self.read: list[int] = []  # rows of each step
        self.selected: list[list[int]] = []  # sentences of each select
        self.joined: list[tuple[int, int]] = []  # sentences of each join

    def row(self, source, prefix):
        if prefix in self.overriding:
            return list(self.overriding[prefix])
        draw = random.Random(repr((self.seed, source, prefix)))
        return [-draw.randrange(1, self.levels + 1) / 64 for _ in range(self.vocabulary)]

    def encode(self, source):
        self.encoded.append(tuple(source.values.shape))
        sources = _rows(source)
        assert all(row[-1] == EOS for row in sources)
        return ToyState(sources, [[()] for _ in sources])

    def advance(self, state, tokens):
        sources, rows = state.use()
        self.read.append(len(tokens))
        read = iter([(*prefix, *new) for prefix, new in zip(chain(*rows), tokens.tolist(), strict=True)])
        rows, ends = [[next(read) for _ in each] for each in rows], range(1 - tokens.shape[1], 1)
        pairs = [(source, row) for source, each in zip(sources, rows, strict=True) for row in each]
        found = [[self.row(source, row[1 : len(row) + end]) for end in ends] for source, row in pairs]
        return torch.tensor(found, dtype=torch.float32), ToyState(sources, rows)

    def top_k(self, state, tokens, count, allowed=None):
        log_probabilities, state = self.advance(state, tokens)
        return top_k(log_probabilities[:, 0], count, allowed), state

    def select(self, state, sentences, parents):
        sources, rows = state.use()
        kept = sentences.tolist()
        assert kept == sorted(set(kept))
        self.selected.append(kept)
        chosen = [[rows[i][j] for j in each] for i, each in zip(kept, parents.tolist(), strict=True)]
        return ToyState([sources[i] for i in kept], chosen)

    def join(self, first, second):
        (sources, rows), (others, more) = first.use(), second.use()
        assert len(rows[0]) == len(more[0])
        self.joined.append((len(sources), len(others)))
        return ToyState(sources + others, rows + more)

    def score(self, source, target):
        scores = torch.zeros(target.shape[0], target.shape[1] - 1)
        for i, (known, row) in enumerate(zip(_rows(source), target.tolist(), strict=True)):
            tokens = tuple(token for token in row if token != PAD)
            for place in range(1, len(tokens)):
                scores[i, place - 1] = self.row(known, tokens[1:place])[tokens[place]]
        return scores


def _rows(source):
    """Return the token IDs of each sequence of a stream."""
    return [tuple(row[:length]) for row, length in zip(source.values.tolist(), source.lengths.tolist(), strict=True)]


def run_search(
    program, sources, max_lengths, strategy=None, *, prefixes=None, word_counts=None, max_batch_tokens=4096,
    workers=1, chunk_size=None, device="cpu", **beam_options,
):  # fmt: skip
    """Return the hypotheses of each source (token IDs without EOS), by a strategy or else by beam search."""
    if strategy is None:
        strategy = BeamSearch(beam_options.pop("beam"), **beam_options)
    prefixes, word_counts = prefixes or [()] * len(sources), word_counts or [0] * len(sources)
    sentences = [
        SearchInput(index, {"source": (*ids, EOS)}, max_length, tuple(prefix), words=(UNK,) * words)
        for index, (ids, max_length, prefix, words) in enumerate(
            zip(sources, max_lengths, prefixes, word_counts, strict=True)
        )
    ]
    size = chunk_size or max(1, len(sentences))
    chunks = (sentences[start : start + size] for start in range(0, len(sentences), size))
    with Engine(program, device, workers=workers, max_batch_tokens=max_batch_tokens) as engine:
        results = list(engine.search(chunks, strategy))
    assert sorted(source.index for source, _ in results) == list(range(len(sentences)))
    return [hypotheses for _, hypotheses in sorted(results, key=lambda result: result[0].index)]


@pytest.fixture(scope="session")
def toy():
    return ToyProgram


@pytest.fixture(scope="session")
def search():
    return run_search


ALPHABET = "abcdefgh "


class Letters:
    """Vocabulary with one token per letter, from ID 4. Other characters are dropped."""

    source_suffix = (EOS,)
    copy_symbols = ()

    def encode(self, text, side="source"):
        return [4 + ALPHABET.index(letter) for letter in text.strip() if letter in ALPHABET]

    def decode(self, tokens, side="target"):
        return "".join(ALPHABET[token - 4] if token >= 4 else "?" for token in tokens)

    def token_strings(self, tokens, side="target"):
        return list(self.decode(tokens))

    def is_word_level(self, side):
        return False


@pytest.fixture(scope="session")
def letters():
    return Letters()


@pytest.fixture
def translator_of(toy, letters):
    def make(overrides=(), program=None, **more):
        spec = specs.load("tiny", ["decoding.extra_length=2", "decoding.beam=3", *overrides])
        return Translator(program or toy(4 + len(ALPHABET), 1, 50), letters, spec, **more)

    return make


class RecordingReport(Report, Progress):
    """Report that records messages and warnings, separately or all in `said`, and the steps of each progress."""

    def __init__(self, *, together: bool = False) -> None:
        self.said: list[str] = []
        self.warnings = self.said if together else []
        self.progresses: list[list[Any]] = []

    def info(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def progress(self, *given: object) -> Progress:
        self.progresses.append([*given])
        return self

    def advance(self, n: int = 1, **_: object) -> None:
        self.progresses[-1].append(n)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still unless the test changes `now`."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def report() -> RecordingReport:
    return RecordingReport()


@pytest.fixture
def words() -> RecordingReport:
    return RecordingReport(together=True)


WORLD = [
    "architecture={N: 1, d_model: 16, d_ff: 24, h: 2, d_k: 6, d_v: 4, dropout: 0.1}",
    "vocabulary.size=200",
    "corpus={train: [{grammar: 300}], dev: [{grammar: 10}], test: [{grammar: 10}]}",
    "training={steps: 24, checkpoint_steps: 4, log_steps: 3, average: 3}",
    "training={source_tokens: 400, target_tokens: 400, learning_rate_factor: 1.0, warmup_steps: 10}",
]


@pytest.fixture
def world() -> Callable[..., Spec]:
    return lambda *more: specs.load("tiny", [*WORLD, *more])


@pytest.fixture
def parsing():
    """Return a function that makes the spec of a small parser."""
    task = {"kind": "parsing", "linearisation": "vinyals", "constrained": True}
    own = {"vocabulary.shared": False, "architecture.tied_embeddings": "target", "corpus.target": "en"}
    return lambda **fields: specs.load("tiny", {"task": task, **own, **fields})


SOURCES = ["the old dog sees a house", "a cat sleeps"]
KNOWN = {
    "translation": ["der alte Hund sieht ein kleines Haus", "eine Katze schläft"],
    "parsing": [
        "(TOP (S (NP (XX the) (XX old) (XX dog)) (VP (XX sees) (XX a) (XX house))))",
        "(TOP (S (NP (XX a) (XX cat)) (VP (XX sleeps))))",
    ],
}
WANTED = {
    "translation": ["der alte Hund sieht ein Haus", "eine Katze schläft"],
    "parsing": ["(TOP (S (NP (XX the) (XX old) (XX dog)) (VP (XX sees) (NP (XX a) (XX house)))))", KNOWN["parsing"][1]],
}


class Parrot:
    """Translator that knows two sentences. `asked` records its calls."""

    def __init__(self, spec):
        self.spec, self.sources, self.references, self.asked = spec, SOURCES, WANTED[spec.task.kind], []
        self.known = dict(zip(SOURCES, KNOWN[spec.task.kind], strict=True))
        self.streams = {"source": SOURCES, "target": self.references}

    def hypotheses(self, texts, *, report, **choice):
        self.asked.append(("outputs", choice))
        return [[Translation(self.known[text], -0.5, -1.0, (4,))] for text in texts]

    def score_tokens(self, sources, targets, *, source, target, max_batch_tokens, report):
        self.asked.append(("scores", max_batch_tokens))
        return [TokenScores((math.log(0.5),) * (len(target.split()) + 1)) for target in targets]


@pytest.fixture
def parrot(parsing):
    """Return a function that makes a `Parrot` for a kind of task."""
    return lambda kind: Parrot(parsing() if kind == "parsing" else specs.load("tiny"))


@pytest.fixture
def bundle(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a folder with the files of a bundle, with random bytes instead of weights."""

    def make(seed: int = 0, size: int = 30_000) -> Path:
        folder = tmp_path / f"bundle-{seed}-{size}"
        folder.mkdir(exist_ok=True)
        (folder / "weights.safetensors").write_bytes(random.Random(seed).randbytes(size))
        (folder / "vocabulary.model").write_bytes(b"the same in all")
        (folder / "spec.yaml").write_text(f"seed: {seed}")
        manifest.write(folder)
        return folder

    return make


@dataclass
class Site:
    """Web server of the files in a folder, which can fail in many ways. An answer takes the next item of each list."""

    folder: Path
    address: str = ""
    content: bytes | None = None
    """Content of every file. If it is None, the folder has the files."""
    tag: str | None = '"one"'
    date: str | None = None
    ranges: bool = True
    ignores_if_range: bool = False
    """Whether it sends the rest of a file that has changed."""
    length: bool = True
    longer: int = 0
    """Number of bytes that are announced but not sent."""
    statuses: list[int] = field(default_factory=list)
    """Status codes to answer instead of the file."""
    headers: dict[str, str] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    """Numbers of bytes after which the connection ends, for `content` and for blobs."""
    after: list[Callable[[], object]] = field(default_factory=list)
    """Functions to call after an answer."""
    forbidden: set[str] = field(default_factory=set)
    """Paths that are answered with status 403."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Requested paths with their range headers."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """Headers of the requests."""


class SiteHandler(http.server.BaseHTTPRequestHandler):
    """Request handler that supports range requests, which Python's own does not."""

    protocol_version = "HTTP/1.1"

    def __init__(self, site: Site, *rest: Any) -> None:
        self.site = site
        super().__init__(*rest)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        site, self.close_connection = self.site, True
        site.asked.append((self.path, self.headers["Range"]))
        site.requests.append(dict(self.headers))
        file = site.folder / self.path.lstrip("/")
        if self.path in site.forbidden:
            self.send_error(403)
        elif site.statuses and (status := site.statuses.pop(0)) != 200:
            self.send_head(status, {**site.headers, "Content-Length": "0"})
        elif site.content is not None or file.is_file():
            self.send_file(file.read_bytes() if site.content is None else site.content)
            if site.after:
                site.after.pop(0)()
        else:
            self.send_error(404)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_file(self, content: bytes) -> None:
        site, start, whole = self.site, self.start(), len(content)
        if start is not None and start >= whole:
            self.send_head(416, {"Content-Range": f"bytes */{whole}", "Content-Length": "0"})
            return
        body = content[start or 0 :]
        headers = {"ETag": site.tag, "Last-Modified": site.date}
        headers["Content-Length"] = str(len(body) + site.longer) if site.length else None
        if start is not None:
            headers["Content-Range"] = f"bytes {start}-{whole - 1}/{whole + site.longer}"
        self.send_head(200 if start is None else 206, {name: value for name, value in headers.items() if value})
        if site.breaks and (site.content is not None or "/blobs/" in self.path):
            body = body[: site.breaks.pop(0)]
        with suppress(ConnectionError):  # the client was killed
            self.wfile.write(body)

    def start(self) -> int | None:
        """Return the first requested byte. None for the whole file."""
        site, requested, unchanged = self.site, self.headers["Range"], self.headers["If-Range"]
        changed = unchanged and unchanged not in (site.tag, site.date) and not site.ignores_if_range
        if not site.ranges or not requested or changed:
            return None
        return int(requested.removeprefix("bytes=").rstrip("-"))


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Serve the folder `registry`, which may not exist yet, on this machine. Clients do not wait between attempts."""
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    monkeypatch.setattr("zoo.files.transfer.time.sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "*")
    site = Site(tmp_path / "registry")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(SiteHandler, site))
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def summary() -> Summary:
    """Return the list entry of a bundle."""
    return SUMMARY


LABELS, TAGS = ("S", "NP", "VP", "PP", "ADVP", "TOP", "X"), ("NN", "DT", ",", "-LRB-", "XX", "NP")
WORDS = ("the", "dog", "-LRB-", "1/2", "Hund", "¿", "ab-RRB-")


def random_tree(choices: random.Random, depth: int = 0) -> Tree:
    """Return a random tree, possibly with unary chains, labels that are also tags, and ROOT inside the tree."""
    if depth > 6 or choices.random() < 0.4:
        return leaf(choices.choice(TAGS), choices.choice(WORDS))
    count = choices.choice((1, 1, 2, 2, 3))
    return node(choices.choice(LABELS), *(random_tree(choices, depth + 1) for _ in range(count)))


@pytest.fixture(scope="session")
def tree() -> Callable[[int], Tree]:
    """Return a function that returns the tree of a seed."""
    return lambda seed: with_root(random_tree(random.Random(seed)))


VOID_ELEMENTS = {"meta", "br", "input", "link", "img", "hr"}


class HtmlPage(HTMLParser):
    """The elements of a page with their text. Fails if the elements are not properly nested."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open, self.texts = list[int](), list[str]()
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in VOID_ELEMENTS:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for index in self.open:
            self.texts[index] += data

    def find(self, tag: str, **attributes: str) -> list[tuple[dict[str, str | None], str]]:
        """Return attributes and text of all elements with this tag and these attributes."""
        return [
            (present, text)
            for (name, present), text in zip(self.elements, self.texts, strict=True)
            if name == tag and attributes.items() <= present.items()
        ]
