"""Pool of models that are loaded when they are needed, and replaced when a new revision appears."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specs import Parsing, Spec, Translation, ZooError
from specs.notation import quote
from zoo.evaluation.metrics import direction_score
from zoo.files.reading import file_exists
from zoo.generation.text_stream import TextStream
from zoo.generation.translator import Translator
from zoo.models import find
from zoo.models.folder import ModelFolder
from zoo.planning.memory_estimate import weight_bytes
from zoo.report import WARNINGS, Report
from zoo.serving.answer import LOG, RELOAD_SECONDS, ServingError
from zoo.serving.languages import Directions, match_code, public_targets
from zoo.system.memory import require_memory

_REVISION_LENGTH = 16
_SHOWN_LENGTH = 40
_CHECK_SECONDS = 2.0
_BYTES_PER_WEIGHT_BYTE = 2.5
"""Bytes of memory per byte of weights. We measured 1.9 to 2.1 with `base` and `big` after loading.

The weights need additional memory because they are also packed for the kernels.
"""
_FIRST_TEXT = "see Bo 1"  # with a number and a possible name, which are protected
_MEMORY_HINT = "set `--max-memory` to a larger value"


@dataclass(eq=False)
class LoadedModel:
    """Model in memory.

    Attributes:
        translator: The translator. After the last reference to it is gone, its threads end and its memory is freed.
        revision: The revision that was loaded.
    """

    translator: Translator
    revision: str


@dataclass(eq=False)
class PooledModel:
    """Model that the server serves. It is in memory only if it was used recently.

    Attributes:
        name: Name of the model in requests.
        folder: Folder of the model.
        spec: Spec of the most recently read revision.
        known_scores: Scores of this revision, by split. Empty if they are unknown, or if their file is damaged.
        loaded: The model in memory, or None.
        loading: Task that loads the model, or None.
        failed: Revision that could not be loaded, or empty. `refresh` does not try to load it again.
        active: Number of requests that use the model.
        last_used: Time at which the model was loaded, or its last request ended.
    """

    name: str
    folder: Path
    spec: Spec
    known_scores: Mapping[str, Any] = field(default_factory=dict)
    loaded: LoadedModel | None = None
    loading: asyncio.Task[ServingError | None] | None = None
    failed: str = ""
    active: int = 0
    last_used: float = 0.0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count a request that uses the model while the `with` block runs."""
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
            self.last_used = time.monotonic()

    async def load(self, open_translator: Callable[[Path], Translator]) -> None:
        """Load the model, or wait for the load that is already running. Loading continues if the caller is cancelled.

        Raises:
            ServingError: The model cannot be loaded.
        """
        if self.loading is None:
            self.loading = asyncio.create_task(self._load(open_translator))
        if (error := await asyncio.shield(self.loading)) is not None:
            raise error

    async def _load(self, open_translator: Callable[[Path], Translator]) -> ServingError | None:
        """Load the current revision, and replace the revision that was loaded before.

        Return an error instead of raising it, because all waiting clients may have disconnected.
        """
        revision = ""
        try:
            revision = await asyncio.to_thread(self.revision)
            translator = await asyncio.to_thread(open_translator, self.folder)
            if revision != (current := await asyncio.to_thread(self.revision)):  # replaced while it was being read
                revision = current
                translator = await asyncio.to_thread(open_translator, self.folder)
            await asyncio.to_thread(_warm_up, translator)
            known_scores = await asyncio.to_thread(_read_scores, self.folder)
        except Exception as error:
            self.failed = revision
            LOG.error("model %s cannot be loaded: %s", self.name, error)
            return ServingError(503, f"the model `{self.name}` cannot be loaded", "load", RELOAD_SECONDS)
        finally:
            self.loading = None
        self.loaded, self.spec, self.known_scores = LoadedModel(translator, revision), translator.spec, known_scores
        self.last_used = time.monotonic()
        LOG.info("model %s is loaded, revision %s", self.name, revision)
        return None

    def unload(self) -> None:
        """Unload the model if it is loaded. Requests that use it finish first."""
        if self.loaded is not None:
            self.loaded = None
            LOG.info("model %s is unloaded", self.name)

    def memory_bytes(self) -> int:
        """Estimate the memory that the model needs while it translates, in bytes."""
        return int(_BYTES_PER_WEIGHT_BYTE * weight_bytes(self.spec))

    @property
    def parses(self) -> bool:
        """Whether the model is a parser."""
        return isinstance(self.spec.task, Parsing)

    def scores(self) -> dict[str, float]:
        """Return WER, BLEU and chrF on the test set or, without test scores, on the dev set.

        The keys are names such as `BLEU`. If the model translates several language pairs, each name ends with a
        pair, as in `BLEU en-de`.
        """
        found = self.known_scores.get("test") or self.known_scores.get("dev")
        if not isinstance(found, dict):
            return {}
        pairs: Sequence[Sequence[str]] = self.directions.pairs if len(self.directions.pairs) > 1 else [()]
        return {
            f"{title} {'-'.join(pair)}".strip(): float(value)
            for title, name in (("WER", "wer"), ("BLEU", "bleu"), ("chrF", "chrf"))
            for pair in pairs
            if isinstance(value := direction_score(found, name, *pair), int | float) and math.isfinite(value)
        }

    @property
    def directions(self) -> Directions:
        """The language pairs that the model translates."""
        return Directions.of(self.spec)

    def revision(self) -> str:
        """Return an identifier of the folder's content: its digest or, for a run, the modification time of its weights.

        The identifier is empty if the model does not exist, for example because it was removed.
        """
        if digest := ModelFolder(self.folder).digest:
            return digest[:_REVISION_LENGTH]
        weights = ModelFolder(self.folder).weights
        return f"run-{weights.stat().st_mtime_ns:x}" if file_exists(weights) else ""


def _warm_up(translator: Translator) -> None:
    """Encode a short text in each source language of a model that translates text.

    The first text in a language takes up to 0.3 s, because it compiles regular expressions. The server encodes short
    texts in the event loop.
    """
    if isinstance(translator.spec.task, Translation):
        for source, targets in Directions.of(translator.spec).targets.items():
            preprocessor = translator.preprocessor(source, targets[0], split=True, protect=True)
            with suppress(ZooError):  # the model accepts only shorter texts
                TextStream(preprocessor, Report()).add(_FIRST_TEXT, "")


def _read_scores(folder: Path) -> Mapping[str, Any]:
    """Return the scores in a model's folder. If the file is damaged, return an empty mapping."""
    try:
        return ModelFolder(folder).known_scores
    except ZooError:
        return {}


@dataclass(frozen=True)
class Route:
    """Model that serves a request, and the model's codes for the source and target languages.

    The two languages may be the same, for example if the model transcribes speech.
    """

    model: PooledModel
    source: str
    target: str


class ModelPool:
    """Models on a server. Call all methods from the event loop's thread.

    Attributes:
        models: The models by name.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        memory_bytes: int,
        idle_seconds: float,
        open_translator: Callable[[Path], Translator],
        report: Report = WARNINGS,
    ) -> None:
        """Find the models, but do not load them yet.

        Args:
            names: Names of published models or folders of runs.
            memory_bytes: Memory that all loaded models together may use.
            idle_seconds: Time after which an unused model is unloaded.
            open_translator: Function that opens the model in a folder. It should discard the translator's warnings,
                because they can contain users' texts.
            report: Receives the progress of model downloads.

        Raises:
            ZooError: `names` is empty, or a model does not exist or does not fit into memory.
        """
        if not names:
            hint = "train and publish a model, for example with `zoo train tiny && zoo publish tiny`"
            raise ZooError("there is no model to serve", hint=hint)
        self._memory_bytes, self._idle_seconds = memory_bytes, idle_seconds
        self._open = open_translator
        folders = {name: find.model(name, report) for name in names}
        self.models = {
            name: PooledModel(name, folder, ModelFolder(folder).spec, _read_scores(folder))
            for name, folder in sorted(folders.items())
        }
        for model in self.models.values():
            model.spec.require_source("the server")
            require_memory(model.memory_bytes(), memory_bytes, f"loading `{model.name}`", _MEMORY_HINT, "the server")

    def directions(self) -> Mapping[str, Sequence[str]]:
        """Return the target languages of each source language, as the language codes that clients see."""
        return public_targets(tuple(model.directions for model in self._translators()))

    def route(self, source: str, target: str, name: str | None = None) -> Route | None:
        """Return the route for a language pair, or None if no model translates the pair. Prefer bilingual models.

        Args:
            source: Language code of the text.
            target: Code of the target language.
            name: Name of the model, if the client asks for a particular model.

        Raises:
            ServingError: A code is invalid, or there is no model with this name.
        """
        for model in sorted(self._translators(name), key=lambda each: each.spec.languages is not None):
            if (pair := model.directions.match(source, target)) is not None:
                return Route(model, *pair)
        return None

    def candidates(self, name: str | None) -> list[PooledModel]:
        """Return the model with this name, or all models if the name is None.

        Raises:
            ServingError: There is no model with this name.
        """
        if name is None:
            return list(self.models.values())
        if name not in self.models:
            raise ServingError(400, "there is no model with this name; `GET /v1/models` lists the models")
        return [self.models[name]]

    def recognizer(
        self,
        kind: str,
        name: str | None,
        source: str | None = None,
        target: str | None = None,
        *,
        translates: bool | None = None,
    ) -> Route:
        """Choose a model that recognises the text in audio files or images. Return the model and its languages.

        If `translates` is None, prefer routes into the target language of the model's corpus, as `Recognizer.translate`
        does. Among the remaining routes, prefer English output.

        Args:
            kind: Kind of files: audio or image.
            name: Name of the model, if the client asks for a particular model.
            source: Language code of the files. None accepts any language.
            target: Language code of the output. None accepts any language.
            translates: Whether the output must be in a different language from the files. None accepts both cases.

        Raises:
            ServingError: There is no such model.
        """
        found = [
            Route(model, own_source, own_target)
            for model in self.candidates(name)
            if model.spec.task.streams.get("source") == kind
            for own_source, own_target in model.directions.pairs
            if translates in (None, own_source != own_target)
            and (source is None or match_code(source, [own_source]))
            and (target is None or match_code(target, [own_target]))
        ]
        if not found:
            work = {None: f"reads {kind}", True: "translates speech", False: "transcribes speech"}[translates]
            work += f" in {quote(source[:_SHOWN_LENGTH])}" if source else ""
            work += f" and writes {quote(target[:_SHOWN_LENGTH])}" if target else ""
            raise ServingError(400, f"no matching model {work}; `GET /v1/models` lists the models")

        def rank(route: Route) -> tuple[bool, bool]:
            return translates is None and route.target != route.model.spec.corpus.target, route.target != "en"

        return min(found, key=rank)

    def sources(self, target: str, name: str | None = None) -> list[str]:
        """Return the base codes of the languages that some model, or the model `name`, can translate into `target`."""
        return sorted(set[str]().union(*(model.directions.sources(target) for model in self._translators(name))))

    @asynccontextmanager
    async def lease(self, model: PooledModel) -> AsyncIterator[LoadedModel]:
        """Keep a model in memory during a request. Load it first if necessary.

        Raises:
            ServingError: The model cannot be loaded now.
        """
        while (loaded := model.loaded) is None:
            if model.loading is None:
                self._make_space(model)
            await model.load(self._open)
        with model.in_use():
            yield loaded

    async def preload(self, names: Sequence[str]) -> None:
        """Load models in the given order. Stop before the first model that does not fit into memory.

        Raises:
            ServingError: A model cannot be loaded.
        """
        for name in dict.fromkeys(names):
            if not self._fits(self.models[name]):
                LOG.warning("model %s is loaded when it is needed: it does not fit into memory with other models", name)
                return
            async with self.lease(self.models[name]):
                pass

    async def maintain(self) -> None:
        """Unload idle models and replace outdated models, until the task is cancelled."""
        while True:
            await asyncio.sleep(min(_CHECK_SECONDS, self._idle_seconds))
            await self.refresh()

    async def refresh(self) -> None:
        """Unload the models that are idle, and load new revisions of the other models.

        While a new revision is loading, requests use the old revision, which is freed after its last request.
        """
        now = time.monotonic()
        for model in self.models.values():
            if model.loaded is None or model.loading is not None:
                continue
            if not model.active and now - model.last_used >= self._idle_seconds:
                model.unload()
                continue
            with suppress(ServingError, ZooError, OSError):  # logged by `load`; the old revision remains in use
                revision = await asyncio.to_thread(model.revision)
                if model.loaded is not None and revision not in ("", model.loaded.revision, model.failed):
                    LOG.info("model %s has the new revision %s", model.name, revision)
                    await model.load(self._open)

    def loaded_models(self) -> list[LoadedModel]:
        """Return the models in memory."""
        return [model.loaded for model in self.models.values() if model.loaded is not None]

    def close(self) -> None:
        """Unload all models. Do not wait for models that are being loaded."""
        for model in self.models.values():
            model.unload()

    def _translators(self, name: str | None = None) -> list[PooledModel]:
        """Return the models that translate text, or only the model with this name.

        Other models must not receive text from clients, because the text could be the name of a file on this machine.
        """
        return [model for model in self.candidates(name) if isinstance(model.spec.task, Translation)]

    def _fits(self, wanted: PooledModel) -> bool:
        """Return whether a model fits into memory, together with all models that are loaded or being loaded."""
        present = [model for model in self.models.values() if model is not wanted and (model.loaded or model.loading)]
        return sum(model.memory_bytes() for model in (wanted, *present)) <= self._memory_bytes

    def _make_space(self, wanted: PooledModel) -> None:
        """Unload the least recently used models until the model `wanted` fits into memory."""
        while not self._fits(wanted):
            idle = [each for each in self.models.values() if each.loaded and not each.loading and not each.active]
            if not idle:
                raise ServingError(503, "all models in memory are in use; try again later", "models", RELOAD_SECONDS)
            min(idle, key=lambda model: model.last_used).unload()
