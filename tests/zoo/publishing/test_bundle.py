"""A bundle is whole or refused: what was published opens as it was, and no damage to it goes unseen."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import zoo
from compiler.backends import BACKENDS
from specs import BOS, EOS, PAD, ZooError
from specs.history import FORMAT
from zoo.files import storage
from zoo.files.atomic import write_json
from zoo.generation.loading import open_model
from zoo.models import folder as model_folder
from zoo.models import weights
from zoo.models.weights import Weights
from zoo.publishing import proof, publish
from zoo.publishing.verify import verify
from zoo.text import tokens as text_pieces
from zoo.training.run import Run

FILES = [
    "README.md",
    "facts.json",
    "manifest.json",
    "proof.safetensors",
    "scores.json",
    "spec.yaml",
    "vocabulary.model",
    "weights.safetensors",
]
OPENED = ["spec.yaml", "vocabulary.model", "weights.safetensors"]


def flip(file: Path, place: float) -> None:
    """Turns one bit over, at a share of the file's length."""
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1 << 2
    file.write_bytes(content)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("published") / "bundle"


@pytest.fixture
def bundle(trained: Callable[..., Run], kept: Path) -> Path:
    """Of a run that is beside it; published once, and copied for each test."""
    run = trained()
    if not kept.exists():
        shutil.copytree(publish.publish(run.folder), kept)
    return Path(shutil.copytree(kept, storage.models() / run.spec.name, dirs_exist_ok=True))


def test_it_has_these_files_and_no_others(bundle: Path) -> None:
    assert sorted(path.name for path in bundle.iterdir()) == FILES
    assert len({path.stat().st_mode for path in bundle.iterdir()}) == 1, "whoever may read one may read all"


def test_it_opens_as_the_run_did(trained: Callable[..., Run]) -> None:
    run = trained()
    texts = ["the old dog sees the cat", "", "two books?"]
    before = zoo.load(str(run.folder), device="cpu").translate(texts, n_best=2)
    publish.publish(run.folder)
    shutil.rmtree("runs")
    translator = zoo.load("transformer-tiny-ende", device="cpu")
    assert translator.translate(texts, n_best=2) == before
    assert translator.longest_source == 31


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 1.0])
def test_a_flipped_bit_is_seen_by_verify(bundle: Path, name: str, place: float) -> None:
    flip(bundle / name, place)
    with pytest.raises(ZooError) as caught:
        verify(bundle.name)
    # A hash that was hit cannot be told from a file that was.
    assert name in str(caught.value) or name == "manifest.json"
    assert "zoo pull" in str(caught.value.hint) or name == "manifest.json"


@pytest.mark.parametrize("name", OPENED)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 1.0])
def test_a_flipped_bit_is_seen_when_a_bundle_is_opened(bundle: Path, name: str, place: float) -> None:
    flip(bundle / name, place)
    with pytest.raises(ZooError, match=name.partition(".")[0]):
        zoo.load(bundle.name, device="cpu")


@pytest.mark.parametrize("name", ["vocabulary.model", "weights.safetensors"])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_flipped_bit_is_seen_when_a_run_is_opened(trained: Callable[..., Run], name: str, place: float) -> None:
    run = trained()
    flip(run.folder / name, place)
    with pytest.raises(ZooError, match=name.partition(".")[0]):
        open_model(run.folder, device="cpu")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [None, 0.0, 0.5, 0.99])
def test_a_missing_or_truncated_file_is_named(bundle: Path, name: str, share: float | None) -> None:
    file = bundle / name
    if share is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(ZooError) as caught:
        verify(bundle.name)
    gone = share is None and name == "manifest.json"  # without it, nothing is published
    assert ("no published model" if gone else name) in str(caught.value)


@pytest.mark.parametrize("name", OPENED)
def test_a_run_whose_file_is_missing_is_refused(trained: Callable[..., Run], name: str) -> None:
    run = trained()
    (run.folder / name).unlink()
    with pytest.raises(ZooError) as caught:
        open_model(run.folder, device="cpu")
    assert name in str(caught.value)


def test_weights_of_another_spec_are_refused(trained: Callable[..., Run]) -> None:
    run = trained()
    tensors = load_file(run.weights)

    def refused(changed: dict[str, torch.Tensor]) -> str:
        Weights(changed).write(run.weights)
        with pytest.raises(ZooError) as caught:
            open_model(run.folder, device="cpu")
        return str(caught.value)

    without = {name: tensor for name, tensor in tensors.items() if name != "encoder.1.feed_forward.w1"}
    assert "`encoder.1.feed_forward.w1`" in refused(without)
    assert "`encoder.7.feed_forward.w1`" in refused({**tensors, "encoder.7.feed_forward.w1": torch.ones(2, 2)})
    assert "[16, 12]" in refused({**tensors, "encoder.0.self_attention.query": torch.ones(3, 12)})
    assert "int64" in refused({**tensors, "embedding": tensors["embedding"].long()})


def test_a_vocabulary_of_another_model_is_refused(trained: Callable[..., Run], tmp_path: Path) -> None:
    run = trained()
    other = trained(tmp_path / "other")
    file = other.folder / "vocabulary.model"
    file.write_bytes(file.read_bytes() + b"\x12\x00")  # an empty field more: read alike, but not the same file
    shutil.copyfile(file, run.folder / "vocabulary.model")
    with pytest.raises(ZooError, match="not the one"):
        open_model(run.folder, device="cpu")


def test_a_spec_of_another_vocabulary_is_refused(trained: Callable[..., Run]) -> None:
    run = trained()
    run.spec_file.write_text(run.spec_file.read_text().replace("size: 101", "size: 102"))
    with pytest.raises(ZooError, match="101 tokens"):
        open_model(run.folder, device="cpu")


def test_an_unknown_precision_is_refused(trained: Callable[..., Run]) -> None:
    with pytest.raises(ZooError, match="float16"):
        open_model(trained().folder, precision="float16")


def test_what_opens_a_model_is_the_specs_choice_unless_somebody_chooses(trained: Callable[..., Run]) -> None:
    run = trained()
    model, section, later = run.spec_file.read_text().partition("compilation:\n")
    run.spec_file.write_text(model + section + later.replace("precision: float32", "precision: int8"))
    chosen = [open_model(run.folder, precision=each).program.precision for each in (None, "float32")]
    assert chosen == ["int8", "float32"]
    with pytest.raises(ZooError, match="`foo` is not a backend"):
        open_model(run.folder, backend="foo")


def test_several_names_are_an_ensemble(trained: Callable[..., Run], tmp_path: Path) -> None:
    runs = [trained(), trained(tmp_path / "other", training={"seed": 2})]
    alone = [zoo.load(str(run.folder), device="cpu").score("we read", "wir lesen") for run in runs]
    together = zoo.load([str(run.folder) for run in runs], device="cpu")
    forced = [
        zoo.load(str(run.folder), device="cpu").score_tokens(["we read"], ["wir lesen"])[0].token_log_probabilities
        for run in runs
    ]
    mean = sum(math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*forced, strict=True))
    assert together.score("we read", "wir lesen") == pytest.approx(mean, abs=1e-5)
    assert together.score("we read", "wir lesen") != pytest.approx(alone[0], abs=1e-5)
    assert zoo.load([str(runs[0].folder)], device="cpu").score("we read", "wir lesen") == alone[0]
    with pytest.raises(ZooError, match="no model"):
        zoo.load([])


def test_a_machine_that_lacks_a_backend_is_not_a_damaged_model(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = replace(BACKENDS["inductor"], absent=lambda: "install g++")
    monkeypatch.setitem(BACKENDS, "inductor", lost)
    with pytest.raises(ZooError, match="inductor") as caught:
        open_model(trained().folder, device="cpu", backend="inductor")
    assert caught.value.where is None
    assert "install g++" in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("name", OPENED)
def test_nothing_looks_into_a_file_before_its_hash_is_right(
    bundle: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(*given: object, **more: object) -> None:
        pytest.fail("it was looked into")

    flip(bundle / name, 0.4)
    readers = ((model_folder, "parse"), (text_pieces, "_opened"), (weights, "safe_open"))
    monkeypatch.setattr(*dict(zip(OPENED, readers, strict=True))[name], looked)
    with pytest.raises(ZooError, match=f"{name}` is damaged: its content is not what was written"):
        zoo.load(bundle.name, device="cpu")


@pytest.mark.parametrize("name", ["weights.safetensors", "proof.safetensors"])
def test_a_header_that_is_too_long_is_not_read(bundle: Path, name: str) -> None:
    """Padded with spaces it would be as good as it was, and of any length."""
    content = (bundle / name).read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    padding = b" " * 10_000_000
    length = (end - 8 + len(padding)).to_bytes(8, "little")
    (bundle / name).write_bytes(length + content[8:end] + padding + content[end:])
    publish.manifest.write(bundle)
    with pytest.raises(ZooError, match=f"{name}` is damaged: its header would have 10 MB"):
        verify(bundle.name)


def test_a_proof_that_would_fill_the_memory_is_not_read(bundle: Path) -> None:
    with (bundle / "proof.safetensors").open("ab") as file:
        file.truncate(70_000_000)
    publish.manifest.write(bundle)
    with pytest.raises(ZooError, match="proves nothing: it has 70 MB"):
        verify(bundle.name)


def test_weights_are_mapped_and_hashed_once(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    run = trained()
    monkeypatch.setattr("zoo.files.digests._SETTLED", -1.0)
    assert len(weights.read(run.weights).tensors) == len(load_file(run.weights))
    monkeypatch.setattr(weights, "_digest", lambda tensors: pytest.fail("hashed twice"))
    read = weights.read(run.weights)
    assert str(run.weights.resolve()) in Path("/proc/self/maps").read_text() or not Path("/proc/self/maps").exists()
    del read


def test_a_bundle_of_the_first_format_has_what_was_not_a_field_yet(bundle: Path) -> None:
    """Sections that say nothing of what the model is may lack what later versions have."""
    whole, before = Run(bundle).spec, zoo.load(bundle.name, device="cpu").translate("we read")
    text = (bundle / "spec.yaml").read_text().replace(f"format: {FORMAT}\n", "")
    model, section, later = text.partition("decoding:\n")
    lines = later.splitlines(keepends=True)
    kept = [line for line in lines if line.split(":")[0].strip() not in ("beam", "alpha", "backend", "precision")]
    (bundle / "spec.yaml").write_text(model + section + "".join(kept))
    publish.manifest.write(bundle)
    base, older = zoo.spec("base"), Run(bundle).spec
    assert older.decoding.beam == base.decoding.beam
    assert older.compilation == base.compilation.model_copy(update={"vocabulary_multiple": 8})
    assert older.decoding.extra_length == whole.decoding.extra_length == 3
    assert older.architecture == whole.architecture
    assert zoo.load(bundle.name, device="cpu").translate("we read") == before


@pytest.mark.parametrize("section", ["architecture", "vocabulary", "corpus", "training"])
def test_what_says_what_a_model_is_may_not_lack(bundle: Path, section: str) -> None:
    lines = (bundle / "spec.yaml").read_text().splitlines(keepends=True)
    del lines[next(number for number, line in enumerate(lines) if line == f"{section}:\n") + 1]
    (bundle / "spec.yaml").write_text("".join(lines))
    with pytest.raises(ZooError, match=f"`{section}.*` is missing") as caught:
        _ = Run(bundle).spec
    assert f"zoo {zoo.__version__} wrote this file" in str(caught.value.hint)


def test_a_field_that_nobody_knows_is_told_with_the_version_that_wrote_it(bundle: Path) -> None:
    text = (bundle / "spec.yaml").read_text().replace(f"zoo {zoo.__version__}", "zoo 7.1.0")
    for key in ("decoding", "compilation"):
        (bundle / "spec.yaml").write_text(text.replace(f"{key}:\n", f"{key}:\n  novelty: 3\n"))
        with pytest.raises(ZooError, match=f"`{key}.novelty` is not a field") as caught:
            _ = Run(bundle).spec
        assert caught.value.hint == "zoo 7.1.0 wrote this file: restore it, or read it with that version"
        assert caught.value.exit_code == 1


def test_weights_without_facts_are_opened(trained: Callable[..., Run]) -> None:
    run = trained()
    save_file(load_file(run.weights), run.weights)
    assert open_model(run.folder, device="cpu").longest_source is None


def test_weights_come_back_as_they_were_written(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 2), "b": torch.randn(5).bfloat16(), "c": torch.randn(2, 2).T}
    Weights(tensors, {"steps": "1"}).write(tmp_path / "weights.safetensors")
    read = weights.read(tmp_path / "weights.safetensors")
    assert all(torch.equal(read.tensors[name], tensor) for name, tensor in tensors.items())
    assert read.facts["steps"] == "1"


def test_tied_matrices_are_saved_once(bundle: Path) -> None:
    tensors = load_file(bundle / "weights.safetensors")
    assert [tuple(tensor.shape) for name, tensor in tensors.items() if "embedding" in name] == [(101, 16)]
    assert not [name for name in tensors if "output_projection" in name]


def test_what_verify_says(bundle: Path) -> None:
    found = verify(bundle.name)
    assert found.files == len(FILES) - 1  # the manifest does not list itself
    assert found.sentences == 4
    assert found.difference <= 1e-6


def test_a_bundle_is_verified_by_its_folder_too(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "else" / "where")
    assert verify(str(tmp_path / "else" / "where")) == verify(bundle.name)
    (tmp_path / "else" / "where" / "README.md").unlink()
    with pytest.raises(ZooError, match=r"else/where/README\.md"):
        verify(str(tmp_path / "else" / "where"))


def test_a_proof_of_other_weights_fails(bundle: Path, trained: Callable[..., Run], tmp_path: Path) -> None:
    """Even where every hash is right: somebody has made the manifest anew."""
    other = trained(tmp_path / "other", training={"seed": 2})
    shutil.copyfile(other.weights, bundle / "weights.safetensors")
    from_manifest = publish.manifest.write
    from_manifest(bundle)
    with pytest.raises(ZooError, match="other log-probabilities than its proof"):
        verify(bundle.name)


def _nothing(proved: dict[str, torch.Tensor]) -> None:
    for name, tensor in proved.items():
        proved[name] = tensor[:0]


def _source_of_padding(proved: dict[str, torch.Tensor]) -> None:
    proved["source"][1] = PAD


def _target_of_padding(proved: dict[str, torch.Tensor]) -> None:
    proved["target"][1, 1:] = PAD


def _impossible_piece(proved: dict[str, torch.Tensor]) -> None:
    proved["target"][0, 1] = 101


def _negative_piece(proved: dict[str, torch.Tensor]) -> None:
    proved["source"][0, 0] = -1


def _other_type(proved: dict[str, torch.Tensor]) -> None:
    proved["source"] = proved["source"].float()


def _other_rows(proved: dict[str, torch.Tensor]) -> None:
    proved["source"] = proved["source"][:1]


def _other_shape(proved: dict[str, torch.Tensor]) -> None:
    proved["log_probabilities"] = proved["log_probabilities"].flatten()


def _no_numbers(proved: dict[str, torch.Tensor]) -> None:
    proved["log_probabilities"][0, 0] = torch.nan


def _vast(proved: dict[str, torch.Tensor]) -> None:
    rows, longest = 100, 5_000
    proved["source"], proved["target"] = (torch.full((rows, longest), 5) for _ in range(2))
    proved["log_probabilities"] = torch.zeros(rows, longest - 1)


def _endless(proved: dict[str, torch.Tensor]) -> None:
    proved["source"] = torch.full((len(proved["target"]), 20_000), 5)


@pytest.mark.parametrize(
    "damage",
    [
        *(_nothing, _source_of_padding, _target_of_padding, _impossible_piece, _negative_piece),
        *(_other_type, _other_rows, _other_shape, _no_numbers, _endless, _vast),
    ],
)
def test_a_proof_that_proves_nothing_is_refused(tmp_path: Path, damage: Callable[..., None]) -> None:
    spec = zoo.spec("tiny", {"vocabulary": {"size": 101}})
    rows = {"source": [[5, 6, EOS], [7, EOS, PAD]], "target": [[BOS, 5, EOS], [BOS, EOS, PAD]]}
    proved = {name: torch.tensor(row) for name, row in rows.items()}
    proved["log_probabilities"] = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
    file = tmp_path / "proof.safetensors"
    save_file(proved, file)
    assert proof.read(file, spec).source.tolist() == rows["source"]
    damage(proved)
    save_file({name: tensor.contiguous() for name, tensor in proved.items()}, file)
    with pytest.raises(ZooError, match="proves nothing"):
        proof.read(file, spec)


def test_the_card_tells_what_one_needs(bundle: Path) -> None:
    card = (bundle / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# transformer-tiny-ende\n")
    assert 'zoo.load("transformer-tiny-ende")' in card
    assert f"{12.345:.2f}" in card
    assert "3 checkpoints, of the steps 3 to 9" in card
    assert "| 2 | 16 | 24 | 2 | 6 | 4 | 0.1 | sinusoidal | post | 101 bpe |" in card
    assert "`pairs.en`" in card
    assert "licences" in card
    assert "Characters that have no word token are unknown: " in card


def test_a_manifest_that_names_nothing_is_damaged(bundle: Path) -> None:
    write_json(bundle / "manifest.json", {})
    with pytest.raises(ZooError, match="damaged"):
        verify(bundle.name)
