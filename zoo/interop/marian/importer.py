"""Import of models of Marian, and the engine that `--check` compares them with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specs import UNK, Spec, ZooError
from zoo.interop.formats import Engine, EngineTranslation, ImportedModel, ImportRequest, imported_spec
from zoo.interop.marian.decoder import SUFFIX, Decoder, model_files, read_decoder
from zoo.interop.marian.files import is_binary_model, is_quantised, network_options, read_arrays, tensors_of
from zoo.interop.marian.network import architecture_fields, read_embeddings, read_layers
from zoo.interop.marian.vocabulary import read_shortlist, read_vocabulary, shortlist_files
from zoo.interop.sentencepiece_model import is_language_token
from zoo.text.tokenizer import SPACE, Tokenizer

_SEPARATOR = " ||| "
_SCRIPTS = ("preprocess.sh", "postprocess.sh")
_MAX_SCORED_LENGTH = 100_000  # tokens: Marian omits longer sentences from scoring
_SEARCH_NOTE = (
    "translations differ from those of Marian, whose search does not compute pre-norm models as they were trained. "
    "From the second token on, Marian's decoder does not normalise keys and values; zoo normalises them, as in training"
)


class MarianImport:
    """The import format `marian`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "marian"
    description = "Marian's .npz or .bin, or its folder with decoder.yml and .spm or .yml vocabularies"
    engine = "pymarian"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is an .npz or .bin file, a `decoder.yml`, or a folder with one of them."""
        if path.is_dir():
            return any(path.glob(f"*{SUFFIX}")) or len(model_files(path)) == 1
        return path.name.endswith((SUFFIX, ".npz")) or is_binary_model(path)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        arrays = read_arrays(path) if path.suffix in (".npz", ".bin") else None
        decoder = read_decoder(path)
        arrays = arrays or read_arrays(decoder.model)
        options = network_options(arrays, decoder.model)
        tensors = tensors_of(arrays, decoder.model)
        architecture = architecture_fields(options)
        tables = read_embeddings(tensors, options)
        rows = len(tables.source), len(tables.target)
        vocabulary = read_vocabulary(decoder.vocabularies, rows, request)
        embeddings, fields = tables.converted(vocabulary.source, vocabulary.target)
        suppressed = [*([UNK] if decoder.suppresses_unknown else []), *vocabulary.control_characters]
        spec = imported_spec(
            request,
            f"Imported from Marian's {decoder.model.name}.",
            architecture={**architecture, **fields},
            vocabulary=vocabulary.fields,
            decoding={**decoder.decoding, "suppressed_tokens": suppressed},
        )
        layers = read_layers(tensors, options, spec)
        options.require_all_known()
        tensors.require_all_taken()
        version = str(options.any("version", "")).split(" ")[0]
        origin = {"format": self.name, "source": decoder.model.name, "engine": f"Marian {version}".strip()}
        scripts = [name for name in _SCRIPTS if decoder.model.with_name(name).is_file()]
        script_notes = (
            f"zoo does not run the script `{name}`: the model receives unprocessed text" for name in scripts
        )
        search_notes = () if _searches_as_trained(spec) else (_SEARCH_NOTE,)
        notes = (*decoder.notes, *vocabulary.notes, *search_notes, *script_notes)
        files, shortlist = shortlist_files(decoder.model.parent), None
        if len(files) == 1:
            shortlist = read_shortlist(files[0], vocabulary, rows)
            use = "to use it, add `--shortlist --backend native` to `zoo decode`"
            notes += (f"the shortlist `{files[0].name}` is imported; {use}",)
        elif files:
            names = ", ".join(file.name for file in files)
            notes += (
                f"the folder has {len(files)} shortlists ({names}), so none is imported; leave one and import again",
            )
        return ImportedModel(spec, vocabulary.vocabulary, {**layers, **embeddings}, origin, notes, shortlist)

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in Marian, through its Python package `pymarian`."""
        decoder = read_decoder(path)
        if is_quantised(decoder.model):
            problem = f"`{decoder.model}` is quantised, and `pymarian` cannot run it"
            raise ZooError(problem, hint="import it without `--check`, or import the float32 model")
        engine = MarianEngine if _searches_as_trained(model.spec) else MarianScoringEngine
        return engine(decoder, model)


def _searches_as_trained(spec: Spec) -> bool:
    """Return whether Marian's search computes the model as it was trained.

    In pre-norm models, Marian normalises the keys and values of self-attention only if they are computed from the same
    tensor as the queries. In its search, they come from the inputs of all steps so far, and are not normalised.
    """
    return spec.architecture.norm.placement != "pre" or spec.architecture.decoder[0].kind != "self_attention"


class MarianEngine:
    """Marian with an open model, in float32 on one thread. Implements `zoo.interop.formats.Engine`."""

    def __init__(self, decoder: Decoder, model: ImportedModel) -> None:
        """Prepare the model. Marian opens it later, at the first translation with each beam size."""
        self._marian = import_module("pymarian")
        self.version = f"Marian {self._marian.__version__}"
        self._decoder, self._model = decoder, model
        self._expects_tokens = any(file.suffix != ".spm" for file in decoder.vocabularies)
        self._translators: dict[int, Any] = {}

    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[EngineTranslation]:
        """Return the best translation of each text, found with the imported model's decoding settings."""
        lines = [" ".join(self._tokens(text)) for text in texts] if self._expects_tokens else list(texts)
        best: dict[str, str] = {}
        for line in map(str, self._translator(beam).translate(lines)):
            best.setdefault(line.partition(_SEPARATOR)[0], line)
        return [self._parse(best[str(number)]) for number in range(len(texts))]

    def _translator(self, beam: int | None) -> Any:
        decoding = self._model.spec.decoding
        beam_size = decoding.beam if beam is None else beam
        if beam_size not in self._translators:
            self._translators[beam_size] = self._marian.Translator(
                models=str(self._decoder.model),
                vocabs=[str(file) for file in self._decoder.vocabularies],
                beam_size=beam_size,
                normalize=decoding.alpha,
                max_length_factor=decoding.length_factor,
                n_best=True,
                no_spm_decode=True,
                cpu_threads=1,
                mini_batch=32,
                maxi_batch=100,
                maxi_batch_sort="src",
                quiet=True,
                quiet_translation=True,
            )
        return self._translators[beam_size]

    def _tokens(self, text: str) -> list[str]:
        """Split a source into tokens for Marian, whose words and language tokens have no leading `▁`."""
        source = self._model.vocabulary.source
        words, tokens = source.is_word_level, source.tokenize(text)
        return [name if is_language_token(name := token.removeprefix(SPACE)) or words else token for token in tokens]

    def _parse(self, line: str) -> EngineTranslation:
        """Parse a line of Marian's n-best list, such as `0 ||| ▁tokens ||| F0= -1.5 ||| -1.5`.

        The number after `F0=` is the log-probability. The last number, by which Marian's search ranks translations, is
        not used.
        """
        _, tokens, log_probability, _ = line.rsplit(_SEPARATOR, 3)
        names = tokens.split()
        target = self._model.vocabulary.target
        assert isinstance(target, Tokenizer)
        names = [SPACE + name for name in names] if target.is_word_level else names
        text = str(target.model.decode_pieces(names))
        text = target.rules.join(text.split()) if target.rules else text
        return EngineTranslation(text, float(log_probability.split("=")[1]), names)


class MarianScoringEngine(MarianEngine):
    """Marian with a pre-norm model, which Marian's search does not compute as it was trained (`_searches_as_trained`).

    Implements `zoo.interop.formats.ScoringEngine`.
    """

    def score(self, texts: Sequence[str], translations: Sequence[EngineTranslation]) -> list[EngineTranslation]:
        """Return the translations with the log-probabilities that `marian-scorer` computes.

        If the vocabulary is a SentencePiece model, the returned translations have no tokens. Marian's scorer splits the
        text itself, so zoo must score the same text instead of the tokens that the search found.
        """
        sources, targets = list(texts), [translation.text for translation in translations]
        if self._expects_tokens:
            sources = [" ".join(self._tokens(text)) for text in texts]
            targets = [" ".join(translation.tokens or ()) for translation in translations]
        scored = zip(translations, self._scores(sources, targets), strict=True)
        return [
            replace(translation, log_probability=score, tokens=translation.tokens if self._expects_tokens else None)
            for translation, score in scored
        ]

    def _scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Run the scorer in a separate process, because `pymarian` has no Python class for it."""
        with TemporaryDirectory() as name:
            files = [Path(name, "source"), Path(name, "target")]
            for file, lines in zip(files, (sources, targets), strict=True):
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            command = [sys.executable, "-m", "pymarian", "score", "--model", str(self._decoder.model)]
            command += ["--vocabs", *map(str, self._decoder.vocabularies), "--train-sets", *map(str, files)]
            command += ["--output", str(output := Path(name, "scores")), "--max-length", str(_MAX_SCORED_LENGTH)]
            command += ["--cpu-threads", "1", "--log-level", "error"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise RuntimeError(next(iter(result.stderr.splitlines()), f"exit code {result.returncode}"))
            return [float(line) for line in output.read_text(encoding="utf-8").splitlines()]
