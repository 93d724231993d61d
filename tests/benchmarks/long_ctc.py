"""Measure how well the encoder of a speech recognizer transcribes uncut recordings, using CTC without the decoder.

    python -m tests.benchmarks.long_ctc RUN SOUNDS TEXTS [--radius R] [--count N]

RUN is a run whose spec has `training.ctc_weight`, `tied_embeddings: target` and restricted attention. Line n of TEXTS
is the text of the audio file in line n of the list SOUNDS. The script takes the most probable token at each encoder
position, merges repeated tokens, and removes blanks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import jiwer
import torch

import zoo
from compiler import Purpose, lower
from compiler.backends import BuildRequest
from compiler.backends.eager import build_eager
from compiler.padded_batch import PaddedBatch
from specs import Spec
from specs.sections import PAD
from tests.benchmarks.sentences import parser_for
from tests.examples import changed
from zoo.generation.recognizer import Recognizer
from zoo.models import weights
from zoo.text.lines import read_sentences


def with_radius(spec: Spec, radius: int | None) -> Spec:
    """Return a spec with this radius for the encoder's restricted attention. If None, return the spec unchanged."""
    if radius is None:
        return spec
    wider = {"restricted_attention": {"radius": radius}}
    encoder = [layer.model_copy(update=wider.get(layer.kind, {})) for layer in spec.architecture.encoder]
    return changed(spec, "architecture", encoder=tuple(encoder))


def best_path(tokens: Sequence[int]) -> list[int]:
    """Merge the repeated tokens of a CTC path, and remove blanks, which are padding tokens."""
    return [token for token, _ in groupby(tokens) if token != PAD]


def read(run: str, sounds: Path, count: int | None, radius: int | None) -> Iterator[str]:
    """Yield the CTC transcription of each of the first `count` audio files in the list `sounds`."""
    model = zoo.load(run)
    assert isinstance(model, Recognizer)
    tensors = weights.read(Path(run) / "weights.safetensors").tensors
    spec = with_radius(model.spec, radius)
    graphs = {Purpose.ENCODE: lower(spec, Purpose.ENCODE)}  # without the passes, which remove the output `memory`
    program = build_eager(BuildRequest(spec, graphs, tensors))
    table = tensors["target_embedding"].float()
    for file in islice(model.modality.read(sounds), count):
        batch = PaddedBatch.pad([torch.from_numpy(model.modality.encode(file))])
        with torch.inference_mode():
            memory = program.run(Purpose.ENCODE, **batch.inputs)["memory"]
        yield model.vocabulary.target.decode(best_path((memory[0].float() @ table.T).argmax(-1).tolist()))


def main() -> None:
    """Print the word error rate of a run on a list of recordings."""
    parser = parser_for(__doc__, run=str, sounds=Path, texts=Path)
    parser.add_argument("--radius", type=int, help="radius of restricted attention (default: as in training)")
    parser.add_argument("--count", type=int, help="transcribe only the first N recordings (default: all)")
    given = parser.parse_args()
    found = list(read(given.run, given.sounds, given.count, given.radius))
    texts = list(islice(read_sentences(given.texts), given.count))
    print(f"{len(found)} recordings: WER {100 * jiwer.wer(texts, found):.1f}")


if __name__ == "__main__":
    main()
