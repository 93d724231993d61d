"""Marian's own models: read, they compute what a forward pass in numpy does, and what a spec cannot say is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from compiler import Purpose, interpret, lower
from specs import BOS, EOS, UNK, ZooError
from zoo.interop.formats import format_of
from zoo.interop.imported import Imported, Wanted

SENTENCES = [("the old dog reads", "ein Hund liest"), ("a house", "der alte Hund sieht ein Haus")]
PRE = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
STUDENT = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru", "transformer-ffn-activation": "relu"}
VARIANTS: dict[str, dict[str, Any]] = {
    "as OPUS-MT's": {},
    "pre-norm": PRE,
    "a student": STUDENT,
    "a pre-norm student": PRE | STUDENT,
    "a deep decoder": {"dec-depth": 3},
    "tied on the target": {"tied-embeddings-all": False, "tied-embeddings": True},
    "not tied, no bias": {"tied-embeddings-all": False, "output-omit-bias": True},
}


def read(place: Path, **wanted: Any) -> Imported:
    return format_of(place).read(place, Wanted("mine", **wanted))


def written(tiny: SimpleNamespace, folder: Path, change: dict[str, Any], **decoder: Any) -> tuple[Path, Any, Any]:
    """A model of the change, its own numbers of tokens, and its forward pass."""
    model = tiny.sentence_pieces(tiny.TEXT, 60)
    (folder / "v.spm").write_bytes(model)
    tokens, options = tiny.opened(model), tiny.OPTIONS | change
    rows = tokens.get_piece_size()
    weights = tiny.marian_weights(options, (rows, rows))
    said = {"models": ["model.npz"], "vocabs": ["v.spm", "v.spm"], "beam-size": 6, "normalize": 0.6} | decoder
    return tiny.write_marian(folder, options, weights, said), tokens, tiny.MarianModel(weights, options)


def scores(imported: Imported, source: list[int], target: list[int]) -> np.ndarray:
    inputs = {"source": torch.tensor([source]), "target": torch.tensor([[BOS, *target]])}
    found = interpret(lower(imported.spec, Purpose.SCORE), dict(imported.tensors), inputs)
    return found["log_probabilities"][0].numpy()


@pytest.mark.parametrize("change", VARIANTS.values(), ids=VARIANTS)
def test_it_computes_what_marian_does(tiny: SimpleNamespace, tmp_path: Path, change: dict[str, Any]) -> None:
    place, tokens, marian = written(tiny, tmp_path, change)
    imported = read(place)
    for source, target in SENTENCES:
        theirs = [*tokens.encode(target), 0]
        every = marian.log_probabilities([*tokens.encode(source), 0], theirs)
        expected = [row[token] for row, token in zip(every, theirs, strict=True)]
        ours = [*imported.vocabulary.encode(target, "target"), EOS]
        found = scores(imported, [*imported.vocabulary.encode(source), EOS], ours)
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_layers_that_share_their_weights_are_written_out(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, _, _ = written(tiny, tmp_path, {"dec-depth": 2})
    single = tiny.OPTIONS | {"dec-depth": 1}
    rows = read(place).vocabulary.sizes[0] - 2
    weights = tiny.marian_weights(single, (rows, rows))
    tiny.write_marian(tmp_path, single | {"dec-depth": 2, "transformer-tied-layers": [1, 1]}, weights)
    found = read(place).tensors
    torch.testing.assert_close(found["decoder.0.feed_forward.w1"], found["decoder.1.feed_forward.w1"])


def test_its_search_comes_along(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, _, _ = written(tiny, tmp_path, {})
    spec = read(place, languages=("en", "de")).spec
    found = spec.decoding
    assert (found.beam, found.alpha, found.length_penalty, found.stopping_rule) == (6, 0.6, "power", "shrinking")
    assert (found.length_factor, found.suppressed_tokens) == (3.0, (UNK,))
    assert (spec.corpus.source, spec.corpus.target, spec.corpus.train) == ("en", "de", ())


@pytest.mark.parametrize(("factor", "extra"), [(3, 2), (1, 0), (0.5, 0), (1.5, 1), (4.0, 3)])
def test_the_longest_translation_is_marians(tiny: SimpleNamespace, tmp_path: Path, factor: float, extra: int) -> None:
    """Of S + 1 tokens, EOS counted, it makes up to F (S + 1), EOS counted."""
    place, _, _ = written(tiny, tmp_path, {}, **{"max-length-factor": factor})
    found = read(place).spec.decoding
    assert (found.length_factor, found.extra_length) == (factor, extra)


def test_the_same_pieces_have_other_numbers(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, tokens, _ = written(tiny, tmp_path, {})
    vocabulary = read(place).vocabulary
    for line in [*tiny.TEXT, "an unknown Ω", ""]:
        named = [tokens.id_to_piece(token).replace("<unk>", "⁇") for token in tokens.encode(line)]
        assert vocabulary.token_strings(vocabulary.encode(line)) == named
        assert vocabulary.decode(vocabulary.encode(line)) == tokens.decode(tokens.encode(line))


def test_lists_of_pieces_are_cut_by_the_models_beside_them(tiny: SimpleNamespace, tmp_path: Path) -> None:
    """As OPUS-MT's: one list for both sides, of which each model knows a part, and codes of languages."""
    halves = tiny.TEXT[:3], tiny.TEXT[3:]
    models = [tiny.sentence_pieces(list(lines), 45) for lines in halves]
    source, target = map(tiny.opened, models)
    for side, model in zip(("source", "target"), models, strict=True):
        (tmp_path / f"{side}.spm").write_bytes(model)
    names = dict.fromkeys(["</s>", "<unk>", ">>deu<<"])
    for each in (source, target):
        names |= dict.fromkeys(each.id_to_piece(number) for number in range(2, each.get_piece_size()))
    left_out = source.id_to_piece(source.encode("the")[0])
    listed = {name: number for number, name in enumerate(name for name in names if name != left_out)}
    (tmp_path / "both.yml").write_text(yaml.safe_dump(listed, allow_unicode=True))
    rows = (len(listed), len(listed))
    weights = tiny.marian_weights(tiny.OPTIONS, rows)
    place = tiny.write_marian(tmp_path, tiny.OPTIONS, weights, {"models": ["model.npz"], "vocabs": ["both.yml"] * 2})

    imported = read(place)
    section = imported.spec.vocabulary
    assert (section.shared, section.separate_models) == (True, True)
    assert imported.vocabulary.same_on_both_sides
    assert any(">>deu<<" in note for note in imported.notes)
    (code, *rest) = imported.vocabulary.encode(">>deu<< a dog")
    assert rest == imported.vocabulary.encode("a dog")
    marian = tiny.MarianModel(weights, tiny.OPTIONS)
    cut = [">>deu<<", *source.encode("a dog the", out_type=str)]
    theirs = [listed.get(name, 1) for name in cut] + [0]
    wanted = [*(listed[name] for name in target.encode("der Hund", out_type=str)), 0]
    expected = [row[token] for row, token in zip(marian.log_probabilities(theirs, wanted), wanted, strict=True)]
    ours = [*imported.vocabulary.encode("der Hund", "target"), EOS]
    found = scores(imported, [*imported.vocabulary.encode(">>deu<< a dog the"), EOS], ours)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert listed[">>deu<<"] != code > EOS


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"type": "s2s"}, "`type: s2s`"),
        ({"right-left": True}, "`right-left: true`"),
        ({"transformer-decoder-autoreg": "average-attention"}, "`transformer-decoder-autoreg: average-attention`"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "`dec-cell: gru`"),
        ({"transformer-ffn-activation": "gelu"}, "`transformer-ffn-activation: gelu`"),
        ({"transformer-preprocess": "n"}, "neither post-norm"),
        ({"transformer-decoder-dim-ffn": 99}, "`transformer-decoder-dim-ffn: 99`"),
        ({"transformer-new-thing": 1}, "`transformer-new-thing: 1` is not known here"),
        ({"transformer-heads": 3}, "`transformer-heads: 3`"),
        ({"dim-emb": "wide"}, "`dim-emb: wide`"),
    ],
)
def test_what_a_spec_cannot_say_is_refused_by_name(
    tiny: SimpleNamespace, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    place, _, _ = written(tiny, tmp_path, {})
    weights = {name: tensor for name, tensor in np.load(place).items() if not name.startswith("special")}
    tiny.write_marian(tmp_path, tiny.OPTIONS | change, weights)
    with pytest.raises(ZooError) as error:
        read(place)
    assert told in error.value.problem
    assert "special:model.yml" in str(error.value.where)


@pytest.mark.parametrize(
    ("decoder", "told"),
    [
        ({"word-penalty": 0.5}, "word-penalty: 0.5"),
        ({"models": ["a.npz", "b.npz"]}, "an ensemble"),
        ({"vocabs": ["v.spm"]}, "one for the source and one for the target"),
        ({"force-decode": True}, "force-decode: true"),
        ({"max-length-factor": float("inf")}, "max-length-factor: .inf"),
        ({"some-new-key": 1}, "some-new-key: 1"),
    ],
)
def test_a_search_that_a_spec_cannot_say_is_refused(
    tiny: SimpleNamespace, tmp_path: Path, decoder: dict[str, Any], told: str
) -> None:
    place, _, _ = written(tiny, tmp_path, {}, **decoder)
    named = place.with_name("model.npz.decoder.yml") if "models" in decoder else place
    with pytest.raises(ZooError) as error:
        read(named)
    assert told in error.value.problem


def test_a_word_penalty_that_changes_no_order_is_taken(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, _, _ = written(tiny, tmp_path, {}, **{"word-penalty": 0.5, "normalize": 1})
    assert read(place).spec.decoding.alpha == 1


@pytest.mark.parametrize("name", ["decoder_l1_self_Wq", "encoder_top_ln_scale", "Wpos"])
def test_every_tensor_is_known_and_there(tiny: SimpleNamespace, tmp_path: Path, name: str) -> None:
    place, _, _ = written(tiny, tmp_path, {})
    weights = {key: tensor for key, tensor in np.load(place).items() if not key.startswith("special")}
    if name in weights:
        del weights[name]
    else:
        weights[name] = np.ones((1, 8), np.float32)
    tiny.write_marian(tmp_path, tiny.OPTIONS, weights)
    with pytest.raises(ZooError, match=f"`{name}`"):
        read(place)


def test_what_is_quantised_or_damaged_is_refused(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, _, _ = written(tiny, tmp_path, {})
    weights = {key: tensor for key, tensor in np.load(place).items() if not key.startswith("special")}
    weights["encoder_l1_ffn_W1"] = weights["encoder_l1_ffn_W1"].astype(np.int8)
    tiny.write_marian(tmp_path, tiny.OPTIONS, weights)
    with pytest.raises(ZooError, match="int8, as quantised models are"):
        read(place)
    weights["encoder_l1_ffn_W1"] = np.array([object()])
    tiny.write_marian(tmp_path, tiny.OPTIONS, weights)
    with pytest.raises(ZooError, match="cannot be read"):
        read(place)
    (tmp_path / "v.spm").write_bytes(b"\x0a\x03\x0a\x01a" * 9)
    written_again, _, _ = place, None, None
    with pytest.raises(ZooError):
        read(written_again)
    place.write_bytes(place.read_bytes()[:100])
    with pytest.raises(ZooError, match="is damaged"):
        format_of(place, "marian").read(place, Wanted("mine"))


def test_a_list_without_its_models_says_what_is_missing(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, _, _ = written(tiny, tmp_path, {}, vocabs=["v.yml", "v.yml"])
    (tmp_path / "v.yml").write_text("</s>: 0\n<unk>: 1\n")
    with pytest.raises(ZooError, match=r"source\.spm"):
        read(place)


def test_a_list_that_is_not_utf_8_is_damaged(tiny: SimpleNamespace, tmp_path: Path) -> None:
    place, _, _ = written(tiny, tmp_path, {}, vocabs=["v.yml", "v.yml"])
    (tmp_path / "v.yml").write_bytes(b"</s>: 0\n<unk>: 1\n\xe4: 2\n")
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes((tmp_path / "v.spm").read_bytes())
    with pytest.raises(ZooError, match=r"v\.yml` is damaged: byte 18 is not UTF-8"):
        read(place)


@pytest.mark.parametrize("key", ["models", "vocabs"])
def test_settings_lead_to_no_file_outside_of_their_folder(tiny: SimpleNamespace, tmp_path: Path, key: str) -> None:
    (tmp_path / "within").mkdir()
    place, *_ = written(tiny, tmp_path / "within", {})
    said = yaml.safe_load((tmp_path / "within" / "model.npz.decoder.yml").read_text())
    for name in said[key]:
        (tmp_path / f"other-{name}").write_bytes((tmp_path / "within" / name).read_bytes())
    outside = said | {key: [str(tmp_path / f"other-{name}") for name in said[key]]}
    (tmp_path / "within" / "model.npz.decoder.yml").write_text(yaml.safe_dump(outside))
    with pytest.raises(ZooError, match=r"within/other-.*` is missing"):
        read(place.parent)
    known = said | {key: [str(tmp_path / "elsewhere" / name) for name in said[key]]}
    (tmp_path / "within" / "model.npz.decoder.yml").write_text(yaml.safe_dump(known))
    assert read(place.parent).spec.name == "mine"
