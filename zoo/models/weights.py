"""A weights file: the paper's matrices by name, what is known of them, and a digest by which damage is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specs import ZooError
from zoo.files import digests
from zoo.files.content import VOCABULARY_BYTES, content, opened, stands
from zoo.files.files import writing
from zoo.files.manifest import Manifest
from zoo.models.header import require_header

_DIGEST, _VOCABULARY, _BRACKETS = "sha256", "vocabulary", "brackets"
_FACTS = "zoo"
_TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class Weights:
    """Tensors by name, one for each matrix of the paper and tied ones once, and facts about them as text.

    Known facts are `steps` (of the checkpoints that they are the mean of, with commas between them) and
    `longest_source` (of the training, in tokens).
    """

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def longest_source(self) -> int | None:
        """In tokens, EOS not counted; None where the file does not say."""
        return _number(self.facts.get("longest_source", ""))

    @property
    def last_step(self) -> int | None:
        """The latest step that they are of; None where the file does not say."""
        steps = [_number(step) for step in self.facts.get("steps", "").split(",")]
        known = [step for step in steps if step is not None]
        return max(known) if len(known) == len(steps) else None

    @property
    def digest(self) -> str | None:
        """Of what the tensors were when the file was written; None where it does not say."""
        return self.facts.get(_DIGEST)

    def write(self, file: Path) -> None:
        """As `zoo.files.files.writing` does it, for the vocabulary that stands beside `file`, if one does."""
        known = {fact: value for fact, value in self.facts.items() if fact != _BRACKETS}  # of another folder, maybe
        facts = {**known, _DIGEST: _digest(self.tensors), **_vocabulary(file.parent)}
        whole = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        with writing(file) as partial:
            # One entry: several would be written in another order each time.
            safetensors.torch.save_file(whole, partial, metadata={_FACTS: json.dumps(facts, sort_keys=True)})


def read(file: Path, listed: Manifest | None = None) -> Weights:
    """The weights in a file, memory-mapped: whoever writes over it changes them, or ends the process.

    They are held to what is `listed`, or to the digest that they carry where they are of no bundle; it is computed
    where that was not done before. Raises ZooError where the file is missing, may not be read, is cut short or was
    changed, where a tensor is not of numbers, and where the vocabulary beside it is not the one that the weights were
    written with.
    """
    with _readable(file, listed):
        before = digests.identity(file)
        if listed is not None:
            listed.hold(file.name)  # before anything looks into it
        with safe_open(file, framework="pt") as opened_file:
            facts = _facts(opened_file.metadata())
            tensors = {name: opened_file.get_tensor(name) for name in opened_file.keys()}  # noqa: SIM118
        if listed is None and _DIGEST in facts and not digests.holds(file, facts[_DIGEST], lambda: _digest(tensors)):
            raise ZooError(f"`{file}` is damaged: its content is not what was written", exit_code=1)
        if digests.identity(file) != before:
            raise ZooError(f"`{file}` was replaced while it was read", hint="read it again", exit_code=1)
        for name, tensor in tensors.items():
            if tensor.dtype not in _TYPES:
                raise ZooError(f"`{file}`: `{name}` is of {tensor.dtype}, which weights are not", exit_code=1)
    if _VOCABULARY in facts and not same_vocabulary(facts, _vocabulary(file.parent)):
        problem = f"the vocabulary in `{file.parent}` is damaged, or not the one that `{file.name}` was trained with"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1)
    return Weights(tensors, facts)


def same_vocabulary(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether the facts of two files are of one vocabulary. Files of before say nothing of a parser's brackets."""
    brackets = {facts[_BRACKETS] for facts in (one, other) if _BRACKETS in facts}
    return one.get(_VOCABULARY) == other.get(_VOCABULARY) and len(brackets) < 2


def known_digest(file: Path) -> str | None:
    """Which weights a file holds, by its header alone; None where there is none, or it does not say."""
    try:
        return Weights({}, read_facts(file)).digest if stands(file) else None
    except ZooError:
        return None


def read_facts(file: Path) -> dict[str, str]:
    """What is known of the weights in a file, without them. Raises ZooError where that cannot be read."""
    with _readable(file), safe_open(file, framework="pt") as opened_file:
        return _facts(opened_file.metadata())


@contextmanager
def _readable(file: Path, listed: Manifest | None = None) -> Iterator[None]:
    """Raises ZooError where it is not, with what to do."""
    try:
        if listed is not None:
            listed.place(file.name)
        with opened(file) as stream:
            require_header(stream, file)
            yield
    except ZooError as error:
        raise ZooError(error.problem, hint=error.hint or RESTORE, exit_code=1) from None
    except (SafetensorError, OSError, MemoryError, ValueError, AttributeError, RecursionError) as error:
        raise ZooError(f"`{file}` cannot be read: {error}", hint=RESTORE, exit_code=1) from None


def _facts(said: Mapping[str, str] | None) -> dict[str, str]:
    """Files of before have an entry for each fact."""
    found = said or {}
    return {str(key): str(value) for key, value in (json.loads(found[_FACTS]) if _FACTS in found else found).items()}


RESTORE = "restore it from where it came from (a pulled model: `zoo pull NAME`), or make it anew: `zoo average RUN`"
"""The remedy for a damaged file of a model."""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Of names, types, shapes and content, in the order of the names."""
    state = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        state.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()


def _vocabulary(folder: Path) -> dict[str, str]:
    """The facts that tell the vocabulary in a folder from any other; of brackets only where there are some."""
    tokens, brackets = (
        " ".join(hashlib.sha256(content(file, VOCABULARY_BYTES)).hexdigest() for file in sorted(folder.glob(pattern)))
        for pattern in ("vocabulary*.model", "vocabulary*.json")
    )
    return {_VOCABULARY: tokens, **({_BRACKETS: brackets} if brackets else {})}
