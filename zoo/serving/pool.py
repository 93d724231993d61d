"""Pool of models that are loaded when they are needed, and replaced when a new revision appears."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from specs import Parsing, Spec, ZooError
from specs.corpus import Direction
from zoo.files.reading import file_exists
from zoo.generation.translator import Translator
from zoo.models import find
from zoo.models.folder import ModelFolder
from zoo.models.local_store import bundle_digest
from zoo.serving.engine import Engine
from zoo.serving.errors import ServingError
from zoo.serving.languages import base_code, match_code, public_codes

LOG = logging.getLogger("zoo.serving")
_REVISION_LENGTH = 16
_CHECK_SECONDS = 2.0
_RETRY_SECONDS = 5


@dataclass
class LoadedModel:
    """Model in memory.

    Attributes:
        engine: The engine that runs its requests.
        spec: Spec of the model.
        revision: The revision that was loaded.
        active: Number of requests that use the model.
        last_used: Time of the end of the last request.
        retired: Whether the model is closed after its last request.
    """

    engine: Engine
    spec: Spec
    revision: str
    active: int = 0
    last_used: float = field(default_factory=time.monotonic)
    retired: bool = False

    def retire(self) -> None:
        """Close the model as soon as no request uses it."""
        self.retired = True
        if not self.active:
            self.engine.close()


@dataclass
class PooledModel:
    """Model that the server offers. It is in memory only if it was used recently.

    Attributes:
        name: Name under which the server offers the model.
        folder: Folder of the model.
        spec: Spec of the revision that was read last.
        loaded: The model in memory, or None.
        loading: Task that loads the model, or None.
        failed: Revision that could not be loaded, so that it is tried and reported only once.
    """

    name: str
    folder: Path
    spec: Spec
    loaded: LoadedModel | None = None
    loading: asyncio.Task[None] | None = None
    failed: str = ""

    @property
    def parses(self) -> bool:
        """Whether the model is a parser."""
        return isinstance(self.spec.task, Parsing)

    def directions(self) -> list[Direction]:
        """Return the codes of the source and target languages that the model translates between."""
        corpus, languages = self.spec.corpus, self.spec.languages
        if languages is None:
            return [(corpus.source, corpus.target)]
        learned = list(dict.fromkeys(corpus.direction(part) for part in corpus.train))
        return learned or [(one, two) for one in languages.codes for two in languages.codes if one != two]

    def revision(self) -> str:
        """Return what identifies the current content of the folder: its digest or, for a run, the time of its weights.

        Empty if the model is not there, for example because it was removed.
        """
        if digest := bundle_digest(self.folder):
            return digest[:_REVISION_LENGTH]
        weights = ModelFolder(self.folder).weights
        return f"run-{weights.stat().st_mtime_ns:x}" if file_exists(weights) else ""


@dataclass(frozen=True)
class Route:
    """Model that translates between two languages, and its own codes of these languages."""

    model: PooledModel
    source: str
    target: str


class ModelPool:
    """The models of a server. All methods are called from the thread of the event loop.

    Attributes:
        models: The models by name.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        max_models: int,
        idle_seconds: float,
        open_translator: Callable[[Path], Translator],
    ) -> None:
        """Find the models. None of them is loaded yet.

        Args:
            names: Names of published models or folders of runs.
            max_models: Maximum number of models in memory.
            idle_seconds: Time after which an unused model is unloaded.
            open_translator: Function that opens the model in a folder. Its warnings can contain texts of users.

        Raises:
            ZooError: There is no model, or one of them does not exist.
        """
        if not names:
            raise ZooError(
                "there is no model to serve", hint="train and publish one (`zoo train tiny && zoo publish tiny`)"
            )
        self._max_models, self._idle_seconds = max_models, idle_seconds
        self._open = open_translator
        folders = {name: find.model(name) for name in names}
        self.models = {
            name: PooledModel(name, folder, ModelFolder(folder).spec) for name, folder in sorted(folders.items())
        }

    def directions(self) -> dict[str, list[str]]:
        """Return the target languages of each source language, in the codes that clients see."""
        targets: dict[str, set[str]] = {}
        for model in self._translating():
            pairs = model.directions()
            codes = public_codes(dict.fromkeys(code for pair in pairs for code in pair))
            for source, target in pairs:
                targets.setdefault(codes[source], set()).add(codes[target])
        return {source: sorted(targets[source]) for source in sorted(targets)}

    def route(self, source: str, target: str, name: str | None = None) -> Route | None:
        """Return the model for two languages, or None. Models of one language pair precede multilingual ones.

        Args:
            source: Code of the language of the text.
            target: Code of the language to translate into.
            name: Name of the model, if the client asks for a certain one.

        Raises:
            ServingError: A code is invalid, or there is no model with this name.
        """
        candidates = [self.named(name)] if name is not None else list(self._translating())
        for model in sorted(candidates, key=lambda each: each.spec.languages is not None):
            pairs = [] if model.parses else model.directions()
            own_source = match_code(source, dict.fromkeys(pair[0] for pair in pairs))
            own_target = match_code(target, (pair[1] for pair in pairs if pair[0] == own_source))
            if own_source is not None and own_target is not None:
                return Route(model, own_source, own_target)
        return None

    def named(self, name: str) -> PooledModel:
        """Return the model with a name. Raise ServingError if there is none."""
        if name not in self.models:
            raise ServingError(400, "there is no model with this name; `GET /v1/models` lists the models")
        return self.models[name]

    def sources(self, target: str, name: str | None = None) -> list[str]:
        """Return the base codes of all languages that can be translated into `target`."""
        models = [self.named(name)] if name is not None else list(self._translating())
        pairs = [pair for model in models if not model.parses for pair in model.directions()]
        return sorted({base_code(source) for source, own in pairs if match_code(target, [own])})

    @asynccontextmanager
    async def lease(self, model: PooledModel) -> AsyncIterator[LoadedModel]:
        """Keep a model in memory during a request. Load it first if necessary.

        Raises:
            ServingError: The model cannot be loaded now.
        """
        while (loaded := model.loaded) is None:
            if model.loading is None:
                self._make_space()
                model.loading = asyncio.create_task(self._load(model))
                model.loading.add_done_callback(lambda task: task.exception())  # retrieved even if all clients left
            await asyncio.shield(model.loading)
        loaded.active += 1
        try:
            yield loaded
        finally:
            loaded.active -= 1
            loaded.last_used = time.monotonic()
            if loaded.retired:
                loaded.retire()

    async def maintain(self) -> None:
        """Unload idle models and replace outdated ones, until the task is cancelled."""
        while True:
            await asyncio.sleep(min(_CHECK_SECONDS, self._idle_seconds))
            await self.refresh()

    async def refresh(self) -> None:
        """Unload the models that are idle, and load new revisions of the others.

        During the loading, requests use the old revision. It is closed after its last request.
        """
        now = time.monotonic()
        for model in self.models.values():
            loaded = model.loaded
            if loaded is None or model.loading is not None:
                continue
            if not loaded.active and now - loaded.last_used >= self._idle_seconds:
                self._unload(model)
                continue
            with suppress(ServingError, ZooError, OSError):  # logged by _load; the old revision remains in use
                if (revision := model.revision()) not in ("", loaded.revision, model.failed):
                    LOG.info("model %s has the new revision %s", model.name, revision)
                    await self._load(model)

    def loaded_models(self) -> list[LoadedModel]:
        """Return the models in memory."""
        return [model.loaded for model in self.models.values() if model.loaded is not None]

    def close(self) -> None:
        """Unload all models."""
        for model in self.models.values():
            self._unload(model)

    def _translating(self) -> Iterator[PooledModel]:
        return (model for model in self.models.values() if not model.parses)

    async def _load(self, model: PooledModel) -> None:
        """Load the current revision of a model. Retire the revision that was loaded before."""
        revision = ""
        try:
            revision = model.revision()
            translator = await asyncio.to_thread(self._open, model.folder)
            if revision != model.revision():  # replaced while it was being read
                revision = model.revision()
                translator = await asyncio.to_thread(self._open, model.folder)
        except Exception as error:
            model.failed = revision
            LOG.error("model %s cannot be loaded: %s", model.name, error)
            raise ServingError(503, f"the model `{model.name}` cannot be loaded", "load", _RETRY_SECONDS) from None
        finally:
            model.loading = None
        old, model.spec = model.loaded, translator.spec
        model.loaded = LoadedModel(Engine(translator), translator.spec, revision)
        LOG.info("model %s is loaded, revision %s", model.name, revision)
        if old is not None:
            old.retire()

    def _make_space(self) -> None:
        """Unload the models that were not used for the longest time, until another one may be loaded."""
        while True:
            loading = sum(model.loading is not None for model in self.models.values())
            in_memory = [model for model in self.models.values() if model.loaded is not None]
            if loading + len(in_memory) < self._max_models:
                return
            idle = [model for model in in_memory if model.loaded is not None and not model.loaded.active]
            if not idle:
                raise ServingError(503, "all models in memory are in use", "models", _RETRY_SECONDS)
            self._unload(min(idle, key=lambda model: 0.0 if model.loaded is None else model.loaded.last_used))

    def _unload(self, model: PooledModel) -> None:
        if (loaded := model.loaded) is not None:
            model.loaded = None
            loaded.retire()
            LOG.info("model %s is unloaded", model.name)
