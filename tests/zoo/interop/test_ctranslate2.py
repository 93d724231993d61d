"""Folders of CTranslate2, written by its own Python package: they compute what its engine does with them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from compiler import TRANSLATE, build
from specs import ZooError
from zoo.generation.translator import Translator
from zoo.interop.ctranslate2.format import CTranslate2
from zoo.interop.imported import Imported, Wanted

engine = pytest.importorskip("ctranslate2", reason="what writes such folders is not installed")

D, D_FF, HEADS = 32, 48, 8
WORDS = [f"w{number}" for number in range(9)]
LIST = ["<blank>", "<s>", "</s>", *WORDS, "<unk>"]
SENTENCES = [
    ("w1 w2 w8", "w3 w3"),
    ("w0", "w4 w5 w6 w7 w0"),
    ("w1 zzz w1 w1 w1 w1", "w2"),
    ("x y w1 z x x", "w2"),
]
Change = Callable[[Any], None]


def random(width: int, *more: int) -> Any:
    return (torch.randn(width, *more) / 4).numpy()


def model(
    *,
    pre_norm: bool = True,
    activation: str = "RELU",
    biased: bool = True,
    positions: torch.Tensor | None = None,
    change: Change = lambda made: None,
    **settings: Any,
) -> Any:
    """A random one of its own kind, ready to be saved."""
    torch.manual_seed(5)
    kind = getattr(engine.specs.Activation, activation)
    made = engine.specs.TransformerSpec.from_config((2, 1), HEADS, pre_norm=pre_norm, activation=kind)

    def linear(of: Any, inner: int, outer: int, bias: bool = biased) -> None:
        of.weight = random(outer, inner)
        if bias:
            of.bias = random(outer)

    def norm(of: Any) -> None:
        of.gamma, of.beta = 1 + random(D), random(D)

    for side in (made.encoder, made.decoder):
        if positions is not None:
            side.position_encodings.encodings = positions.numpy()
        if pre_norm:
            norm(side.layer_norm)
        for layer in side.layer:
            parts = [layer.self_attention, *([layer.attention] if hasattr(layer, "attention") else [])]
            for part in parts:
                widths = (3 * D, D) if len(part.linear) == 2 else (D, 2 * D, D)
                for of, width in zip(part.linear, widths, strict=True):
                    linear(of, D, width)
                norm(part.layer_norm)
            linear(layer.ffn.linear_0, D, D_FF)
            linear(layer.ffn.linear_1, D_FF, D)
            norm(layer.ffn.layer_norm)
    made.encoder.embeddings[0].weight = random(len(LIST), D)
    made.decoder.embeddings.weight = random(len(LIST), D)
    linear(made.decoder.projection, D, len(LIST), bias=True)
    made.decoder.projection.bias[:3] = -30, -30, 0  # no translation has <blank> or <s>, and each ends soon
    made.register_source_vocabulary(LIST)
    made.register_target_vocabulary(LIST)
    for key, value in settings.items():
        setattr(made.config, key, value)
    change(made)
    return made


def saved(made: Any, folder: Path, numbers: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    made.validate()
    made.optimize(numbers)
    made.save(str(folder))
    return folder


def imported(folder: Path) -> Imported:
    return CTranslate2().read(folder, Wanted("model"))


def translator(read: Imported) -> Translator:
    program = build(read.spec, TRANSLATE, weights=read.tensors, backend="eager", device="cpu")
    return Translator(program, read.vocabulary, read.spec)


def require_alike(folder: Path) -> Imported:
    """The same log-probabilities as the engine's in float32, and the same greedy translations."""
    read = imported(folder)
    ours, threads = translator(read), torch.get_num_threads()
    theirs = engine.Translator(str(folder), compute_type="float32", intra_threads=1)
    torch.set_num_threads(threads)
    scored = theirs.score_batch(*([text.split() for text in side] for side in zip(*SENTENCES, strict=True)))
    for found, (source, target) in zip(scored, SENTENCES, strict=True):
        (mine,) = ours.score_tokens([source], [target])
        torch.testing.assert_close(
            torch.tensor(mine.token_log_probabilities), torch.tensor(found.log_probs), atol=3e-5, rtol=0
        )
    sources = [source for source, _ in SENTENCES]
    answers = CTranslate2().open(folder, read).translate(sources, beam=1)
    found = [translations[0] for translations in ours.hypotheses(sources, beam=1)]
    for answer, each in zip(answers, found, strict=True):
        assert answer.tokens == read.vocabulary.token_strings(each.tokens)
        assert answer.log_probability == pytest.approx(each.log_probability, abs=1e-3)
    return read


LEARNED = torch.linspace(-1, 1, 300 * D).sin().view(300, D)
MODELS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"pre_norm": False, "activation": "SWISH"},
    "without biases": {"biased": False, "activation": "GELU"},
    "learned positions": {"positions": LEARNED},
    "EOS behind sources": {"add_source_eos": True},
    "starts with EOS": {"decoder_start_token": "</s>"},
    "starts with PAD": {"decoder_start_token": "<blank>"},
    "starts with zeros": {"change": lambda made: setattr(made.decoder, "start_from_zero_embedding", True)},
    "embeddings as they are": {"change": lambda made: setattr(made.encoder, "scale_embeddings", False)},
    "a scale of its own": {"change": lambda made: setattr(made.decoder, "scale_embeddings", 3.0)},
    "another epsilon": {"layer_norm_epsilon": 0.01},
}


@pytest.mark.parametrize("of", MODELS.values(), ids=MODELS)
def test_it_computes_what_the_engine_does(of: dict[str, Any], tmp_path: Path) -> None:
    require_alike(saved(model(**of), tmp_path))


def _short(made: Any) -> None:
    made.decoder.projection.bias[2] = 3


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_its_own_search_finds_the_same(beam: int, tmp_path: Path) -> None:
    """What comes to the limit is left out: the engine cuts it off there. So is its least length, which it bars EOS for
    as if that had no share of the probability.
    """
    folder, draw = saved(model(change=_short), tmp_path), Random(2)
    read = imported(folder)
    decoding = read.spec.decoding.model_copy(update={"min_length": 0})
    read = replace(read, spec=read.spec.model_copy(update={"decoding": decoding}))
    texts = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 9))) for _ in range(60)]
    threads = torch.get_num_threads()
    theirs = engine.Translator(str(folder), compute_type="float32", intra_threads=1)
    torch.set_num_threads(threads)
    answers = theirs.translate_batch(
        [text.split() for text in texts], beam_size=beam, num_hypotheses=beam, return_scores=True, min_decoding_length=0
    )
    compared = 0
    for answer, found in zip(answers, translator(read).hypotheses(texts, beam=beam, n_best=beam), strict=True):
        if max(map(len, answer.hypotheses)) < read.spec.decoding.extra_length:
            compared += 1
            assert [" ".join(tokens) for tokens in answer.hypotheses] == [each.text for each in found]
            assert answer.scores == pytest.approx([each.score for each in found], abs=1e-4)
    assert compared > 30


def _tied(made: Any) -> None:
    made.decoder.projection.weight = made.encoder.embeddings[0].weight = made.decoder.embeddings.weight


@pytest.mark.parametrize("numbers", ["int8", "int8_float16", "int16", "float16", "bfloat16"])
def test_numbers_of_fewer_bits_are_undone_as_the_engine_undoes_them(numbers: str, tmp_path: Path) -> None:
    read = require_alike(saved(model(change=_tied), tmp_path, numbers))
    assert read.origin["numbers"] == numbers.partition("_")[0]
    assert read.spec.architecture.tied_embeddings == "all"


def test_it_says_what_it_is(tmp_path: Path) -> None:
    read = imported(saved(model(), tmp_path))
    spec = read.spec
    assert (spec.architecture.positional_encoding, spec.architecture.first_position) == ("sinusoidal_halves", 1)
    assert spec.architecture.norm_epsilon == 1e-5, "the engine's own"
    decoding = spec.decoding
    assert (decoding.beam, decoding.alpha, decoding.length_penalty, decoding.extra_length) == (2, 1.0, "power", 256)
    assert (decoding.stopping_rule, decoding.min_length) == ("full", 1)
    assert any("no EOS behind a source" in note for note in read.notes)


def _rewritten(file: Path, version: int) -> None:
    """As an older engine wrote it: without aliases before 3, types before 4, settings beside it before 6."""
    read, written = file.read_bytes(), bytearray(struct.pack("<I", version))
    at = 4

    def take(kind: str) -> int:
        nonlocal at
        (number,) = struct.unpack_from(f"<{kind}", read, at)
        at += struct.calcsize(f"<{kind}")
        return int(number)

    def text() -> bytes:
        nonlocal at
        start, length = at, take("H")
        at += length
        return read[start:at]

    written += text() + struct.pack("<I", take("I"))
    count = take("I")
    written += struct.pack("<I", count)
    for _ in range(count):
        written += text()
        rank = take("B")
        shape = [take("I") for _ in range(rank)]
        kind, length = take("B"), take("I")
        size = (4, 1, 2)[kind]
        written += struct.pack(f"<B{rank}I", rank, *shape)
        written += struct.pack("<BI", *((kind, length) if version >= 4 else (size, length // size)))
        written += read[at : at + length]
        at += length
    file.write_bytes(bytes(written) + (read[at:] if version >= 3 else b""))


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_files_of_every_version_are_read(version: int, tmp_path: Path) -> None:
    made = model()
    made.validate()
    if version >= 3:
        made.optimize("int8")
    made.save(str(tmp_path))
    _rewritten(tmp_path / "model.bin", version)
    require_alike(tmp_path)


def test_a_vocabulary_may_be_lines(tmp_path: Path) -> None:
    folder = saved(model(), tmp_path)
    (folder / "shared_vocabulary.json").unlink()
    for side in ("source", "target"):
        (folder / f"{side}_vocabulary.txt").write_bytes("".join(f"{name}\n" for name in LIST[:-1]).encode())
    require_alike(folder)


def _without_norm(made: Any) -> None:
    del made.encoder.layer_norm


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "add_source_bos": ("add_source_bos", {"add_source_bos": True}),
    "no start": ("decoder_start_token", {"decoder_start_token": None}),
    "tanh": ("gelu by way of tanh", {"activation": "GELUTanh"}),
    "capped": ("capped", {"change": lambda made: setattr(made.decoder, "final_logit_softcapping", 2.0)}),
    "ALiBi": ("ALiBi", {"change": lambda made: setattr(made.decoder, "alibi", True)}),
    "a scale of outputs": ("scale_outputs", {"change": lambda made: setattr(made.decoder, "scale_outputs", 2.0)}),
    "no last norm": ("encoder/layer_norm", {"change": _without_norm}),
}


@pytest.mark.parametrize(
    ("key", "value"), [("add_source_eos", "no"), ("unk_token", None), ("eos_token", 3), ("layer_norm_epsilon", "small")]
)
def test_a_setting_of_another_kind_is_refused_where_it_stands(key: str, value: Any, tmp_path: Path) -> None:
    file = saved(model(), tmp_path) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    with pytest.raises(ZooError, match=key) as error:
        imported(tmp_path)
    assert error.value.where == str(file)


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_spec_cannot_say_is_refused_by_name(case: str, tmp_path: Path) -> None:
    named, of = REFUSED[case]
    with pytest.raises(ZooError, match=named):
        imported(saved(model(**of), tmp_path))


def test_a_setting_that_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    file = saved(model(), tmp_path) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "of_tomorrow": 1}))
    with pytest.raises(ZooError, match="of_tomorrow"):
        imported(tmp_path)


def test_pieces_of_sentencepiece_need_its_model(tmp_path: Path) -> None:
    folder = saved(model(), tmp_path)
    tokens = [f"▁{name}" if name in WORDS else name for name in LIST]
    (folder / "shared_vocabulary.json").write_text(json.dumps(tokens))
    with pytest.raises(ZooError, match=r"source\.spm"):
        imported(folder)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.999])
def test_a_file_that_was_cut_short_is_refused(share: float, tmp_path: Path) -> None:
    file = saved(model(), tmp_path) / "model.bin"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(ZooError, match=r"model\.bin"):
        imported(tmp_path)


def test_a_list_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = saved(model(), tmp_path)
    (folder / "shared_vocabulary.json").write_text(json.dumps([*LIST, "one more"]))
    with pytest.raises(ZooError, match="lists 14 tokens, and its embedding has 13"):
        imported(folder)
