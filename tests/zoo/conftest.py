"""What several rooms are tested with: a toy program, a report that listens, a world in which training is quick."""

import functools
import http.server
import math
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

import specs
from compiler.program import top_k
from specs import EOS, PAD, Spec
from zoo.files import manifest
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import search
from zoo.generation.scoring import TokenScores
from zoo.generation.translator import Translation, Translator
from zoo.models.registries.revision import Summary
from zoo.report import Report


class ToyState:
    """Sources, and the prefixes (BOS included) of each one's rows. It says so when it is used twice."""

    def __init__(self, sources, rows):
        assert len(sources) == len(rows)
        assert len(set(map(len, rows))) == 1, "all sentences have equally many rows"
        self.sources, self.rows, self.used = sources, rows, False

    def use(self):
        assert not self.used, "a state that was handed on is used up"
        self.used = True
        return self.sources, self.rows


class ToyProgram:
    """Knows the verbs (and `score`).

    Log-probabilities are multiples of 1/64, so that sums of them are exact in any order; few `levels` make
    many ties. `overriding` maps a prefix (without BOS) to a row of log-probabilities.
    """

    search, concurrent = "steps", False

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
        self.encoded.append(tuple(source.shape))
        sources = [tuple(token for token in row if token != PAD) for row in source.tolist()]
        assert all(row[-1] == EOS for row in sources)
        return ToyState(sources, [[()] for _ in sources])

    def decode_step(self, state, token):
        sources, rows = state.use()
        assert token.shape == (len(sources) * len(rows[0]),)
        self.read.append(len(token))
        tokens = iter(token.tolist())
        rows = [[(*prefix, next(tokens)) for prefix in each] for each in rows]
        found = [self.row(source, prefix[1:]) for source, each in zip(sources, rows, strict=True) for prefix in each]
        return torch.tensor(found, dtype=torch.float32), ToyState(sources, rows)

    def top_k(self, state, token, count, allowed=None):
        log_probabilities, state = self.decode_step(state, token)
        return top_k(log_probabilities, count, allowed), state

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
        for i, (given, row) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            tokens = tuple(token for token in row if token != PAD)
            known = tuple(token for token in given if token != PAD)
            for place in range(1, len(tokens)):
                scores[i, place - 1] = self.row(known, tokens[1:place])[tokens[place]]
        return scores


def searching(
    program,
    sources,
    limits,
    chooser=None,
    *,
    prefixes=None,
    words=None,
    tokens=4096,
    workers=1,
    windows=None,
    device="cpu",
    **choice,
):
    """What is found for each source (tokens without EOS), with a `beam` of such a size, and its other fields."""
    if chooser is None:
        chooser = BeamSearch(choice.pop("beam"), **choice)
    prefixes, words = prefixes or [()] * len(sources), words or [0] * len(sources)
    several = [
        Source(index, (*ids, EOS), limit, tuple(prefix), words=number)
        for index, (ids, limit, prefix, number) in enumerate(zip(sources, limits, prefixes, words, strict=True))
    ]
    size = windows or max(1, len(several))
    read = (several[start : start + size] for start in range(0, len(several), size))
    found = list(search(program, read, chooser, tokens, workers, device))
    assert sorted(index for index, _ in found) == list(range(len(several)))
    return [hypotheses for _, hypotheses in sorted(found, key=lambda each: each[0])]


@pytest.fixture(scope="session")
def toy():
    return ToyProgram


@pytest.fixture(scope="session")
def search():
    return searching


ALPHABET = "abcdefgh "


class Letters:
    """One token a letter, from 4 on; what is not in the alphabet vanishes."""

    source_end = EOS

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


class Listening(Report):
    """Keeps what it is told."""

    def __init__(self):
        self.said, self.warnings = [], []

    def info(self, text):
        self.said.append(text)

    def warn(self, text):
        self.warnings.append(text)


@pytest.fixture
def report():
    return Listening()


WORLD = [
    "architecture.N=1",
    "architecture.d_model=16",
    "architecture.d_ff=24",
    "architecture.h=2",
    "architecture.d_k=6",
    "architecture.d_v=4",
    "architecture.dropout=0.1",
    "vocabulary.size=200",
    "corpus.train=[{grammar: 300}]",
    "corpus.dev=[{grammar: 10}]",
    "corpus.test=[{grammar: 10}]",
    "training.source_tokens=400",
    "training.target_tokens=400",
    "training.checkpoint_steps=4",
    "training.log_steps=3",
    "training.steps=24",
    "training.learning_rate=1.0",
    "training.warmup_steps=10",
    "training.average=3",
]


class Words(Report):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, text: str) -> None:
        self.said.append(text)

    warn = info


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def world() -> Callable[..., Spec]:
    return lambda *more: specs.load("tiny", [*WORLD, *more])


@pytest.fixture
def parsing():
    """Makes the spec of a small parser."""
    task = {"kind": "parsing", "linearisation": "vinyals", "constrained": True}
    own = {"vocabulary.shared": False, "architecture.tied_embeddings": "target", "corpus.target": "en"}
    return lambda **fields: specs.load("tiny", {"task": task, **own, **fields})


KNOWN = {
    "translation": {
        "the old dog sees a house": "der alte Hund sieht ein kleines Haus",
        "a cat sleeps": "eine Katze schläft",
    },
    "parsing": {
        "the old dog sees a house": "(TOP (S (NP (XX the) (XX old) (XX dog)) (VP (XX sees) (XX a) (XX house))))",
        "a cat sleeps": "(TOP (S (NP (XX a) (XX cat)) (VP (XX sleeps))))",
    },
}
WANTED = {
    "translation": ["der alte Hund sieht ein Haus", "eine Katze schläft"],
    "parsing": [
        "(TOP (S (NP (XX the) (XX old) (XX dog)) (VP (XX sees) (NP (XX a) (XX house)))))",
        "(TOP (S (NP (XX a) (XX cat)) (VP (XX sleeps))))",
    ],
}


class Parrot:
    """Knows two sentences by heart; `asked` keeps what it was asked for."""

    def __init__(self, spec):
        self.spec, self.known, self.asked = spec, KNOWN[spec.task.kind], []
        self.sources, self.references = list(self.known), WANTED[spec.task.kind]

    def hypotheses(self, texts, *, report, **choice):
        self.asked.append(("outputs", choice))
        return [[Translation(self.known[text], -0.5, -1.0, (4,))] for text in texts]

    def forced(self, sources, targets, *, tokens, report):
        self.asked.append(("forced", tokens))
        return [TokenScores((math.log(0.5),) * (len(target.split()) + 1)) for target in targets]


@pytest.fixture
def parrot(parsing):
    """Makes one, by the kind of its task."""
    return lambda kind: Parrot(parsing() if kind == "parsing" else specs.load("tiny"))


SUMMARY = Summary(
    task="translation",
    source="en",
    target="de",
    parameters=7,
    metric="bleu",
    dev=12.5,
    test=None,
    description="A model.",
    published="2026-01-01T00:00:00+00:00",
    zoo="0.1.0",
)


@pytest.fixture
def bundle(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder with a bundle's files, though no model could be made of them: `seed` says what bytes."""

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
class Served:
    """A plain web server of the files in a folder."""

    folder: Path
    address: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Paths, and the ranges that were wanted of them."""
    breaks: list[int] = field(default_factory=list)
    """Bytes of a blob after which the connection ends, one for each of the next answers."""
    forbidden: set[str] = field(default_factory=set)
    """Paths of what nobody may read."""


class FileHandler(http.server.SimpleHTTPRequestHandler):
    """With ranges, which Python's own has not."""

    protocol_version = "HTTP/1.1"

    def __init__(self, served: Served, *rest: object) -> None:
        self.served = served
        super().__init__(*rest, directory=str(served.folder))

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.served.asked.append((self.path, wanted))
        file = Path(self.translate_path(self.path))
        if not file.is_file() or self.path in self.served.forbidden:
            self.send_error(403 if self.path in self.served.forbidden else 404)
            return
        content = file.read_bytes()
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted else 0
        body = content[start:]
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if "/blobs/" in self.path and self.served.breaks:
            body, self.close_connection = body[: self.served.breaks.pop(0)], True
        with suppress(ConnectionError):  # who asked was killed
            self.wfile.write(body)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serves the folder `registry`, which may not exist yet, on this machine."""
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    monkeypatch.setattr("zoo.files.transfer.time.sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "*")
    served = Served(tmp_path / "registry")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(FileHandler, served))
    served.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def summary() -> Summary:
    """What a list says of any of them."""
    return SUMMARY
