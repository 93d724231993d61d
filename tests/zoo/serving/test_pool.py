"""Models are loaded when needed, unloaded when idle, and replaced without losing a request."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from pathlib import Path
from threading import Event, current_thread
from unittest.mock import Mock

import pytest

import specs
from specs import ZooError
from tests.refusals import refused
from tests.zoo.serving.conftest import open_quietly
from zoo.models.folder import ModelFolder
from zoo.serving.answer import ServingError
from zoo.serving.pool import ModelPool, PooledModel
from zoo.text import span_patterns
from zoo.text.language_codes import LanguageCode

LANGUAGES = {"codes": ["eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant"], "target_token": "target"}
FILES = [{"source": "pairs.en", "target": "pairs.de"}]
pytestmark = pytest.mark.anyio
CORPUS = {"source": "eng_Latn", "target": "deu_Latn", "train": [], "dev": FILES, "test": FILES}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def opened():
    return Mock(side_effect=open_quietly)


@pytest.fixture
def pool_of(trained, opened):
    def make(names=("runs/a",), models=2, idle_seconds=1_000.0):
        for name in names:
            trained(name)
        memory = int(models * PooledModel("", Path(), ModelFolder(Path(names[0])).spec).memory_bytes())
        return ModelPool(names, memory_bytes=memory, idle_seconds=idle_seconds, open_translator=opened)

    return make


def replace(folder: str) -> None:
    weights = Path(folder) / "weights.safetensors"
    os.utime(weights, ns=(1, weights.stat().st_mtime_ns + 1_000_000))


async def use(pool, name="runs/a"):
    """Lease a model, and return it."""
    async with pool.lease(pool.models[name]) as loaded:
        return loaded


async def test_a_new_revision_replaces_the_old_one_after_its_last_request(pool_of):
    pool = pool_of()
    model = pool.models["runs/a"]
    async with pool.lease(model) as old:
        await pool.refresh()
        assert model.loaded is old
        replace("runs/a")
        await pool.refresh()
        new = await use(pool)
        assert new is not old
        assert new.revision != old.revision
        future = old.translator.submit(["we read"])  # the old one still works
        assert len(await asyncio.wrap_future(future)) == 1
    assert pool.loaded_models() == [new]
    translator = weakref.ref(old.translator)
    del old, future
    for _ in range(300):  # the thread that delivered the result may still be returning from it
        gc.collect()
        if translator() is None:
            break
        await asyncio.sleep(0.1)
    assert translator() is None, "the old revision remains in memory"


async def test_a_damaged_revision_leaves_the_old_one_in_use(pool_of, opened, caplog):
    pool = pool_of()
    old = await use(pool)
    replace("runs/a")
    opened.side_effect = ZooError("damaged")
    await pool.refresh()
    await pool.refresh()
    assert pool.models["runs/a"].loaded is old
    opened.side_effect = open_quietly
    replace("runs/a")
    await pool.refresh()
    assert pool.models["runs/a"].loaded is not old
    assert caplog.text.count("cannot be loaded") == 1


async def test_a_model_is_neither_unloaded_nor_loaded_twice_while_it_is_replaced(pool_of, opened):
    pool, waits = pool_of(("runs/a", "runs/b"), models=1.5), Event()
    old = await use(pool)
    replace("runs/a")
    opened.side_effect = lambda folder: waits.wait(5) and open_quietly(folder)
    refresh = asyncio.create_task(pool.refresh())
    while pool.models["runs/a"].loading is None:
        await asyncio.sleep(0.01)
    with pytest.raises(ServingError, match="in use"):
        await use(pool, "runs/b")
    assert await use(pool) is old
    waits.set()
    await refresh
    assert (await use(pool) is not old, opened.call_count) == (True, 2)


async def test_a_removed_model_remains_in_memory(pool_of):
    pool = pool_of()
    async with pool.lease(pool.models["runs/a"]) as loaded:
        Path("runs/a/weights.safetensors").unlink()
        await pool.refresh()
    assert pool.loaded_models() == [loaded]


async def test_a_model_that_cannot_be_loaded_is_tried_again(pool_of, opened):
    pool = pool_of()
    opened.side_effect = ZooError("damaged")
    for _ in range(2):
        with pytest.raises(ServingError) as error:
            await use(pool)
        assert error.value.status == 503
    opened.side_effect = open_quietly
    await use(pool)
    assert opened.call_count == 3


async def test_idle_models_are_unloaded(pool_of):
    pool = pool_of(idle_seconds=0.0)
    async with pool.lease(pool.models["runs/a"]):
        await pool.refresh()
        assert len(pool.loaded_models()) == 1
    await pool.refresh()
    assert pool.loaded_models() == []


async def test_the_model_that_was_not_used_for_the_longest_time_makes_space(pool_of):
    names = ("runs/a", "runs/b", "runs/c")
    pool = pool_of(names)
    await use(pool, "runs/b")
    async with pool.lease(pool.models["runs/a"]), pool.lease(pool.models["runs/c"]):
        assert [pool.models[name].loaded is not None for name in names] == [True, False, True]
        with pytest.raises(ServingError, match="in use"):
            await use(pool, "runs/b")
    await use(pool, "runs/b")
    assert len(pool.loaded_models()) == 2


async def test_a_model_is_loaded_once_when_it_is_needed_even_if_a_request_is_cancelled(pool_of, opened):
    pool = pool_of()
    opened.assert_not_called()
    first = asyncio.create_task(use(pool))
    await asyncio.sleep(0)
    second = asyncio.create_task(use(pool))
    await asyncio.sleep(0)
    first.cancel()
    await second
    opened.assert_called_once_with(Path("runs/a"))


async def test_patterns_of_a_language_are_compiled_before_the_first_text_and_in_another_thread(pool_of, monkeypatch):
    threads, patterns = [], span_patterns.Patterns
    monkeypatch.setattr(span_patterns, "Patterns", lambda each: threads.append(current_thread()) or patterns(each))
    span_patterns.patterns_of.cache_clear()
    loaded = await use(pool_of())
    await asyncio.wrap_future(loaded.translator.submit(["we see Bo at 5 pm, and read 2 books"]))
    assert current_thread() not in threads != []


def test_a_server_needs_a_model_that_fits_into_the_memory(pool_of):
    for names, problem in (([], "no model to serve"), (["missing"], "missing")):
        refused(problem, ModelPool, names, memory_bytes=10**9, idle_seconds=1, open_translator=open_quietly)
    refused("loading `runs/a` needs", pool_of, models=0.5)


def test_models_are_chosen_by_languages(pool_of):
    pool = pool_of()
    spec = specs.load("tiny", {"languages": LANGUAGES, "corpus": CORPUS})
    pool.models["several"] = PooledModel("several", Path("x"), spec)
    for source, target, expected in (
        ("en", "de", ("runs/a", "en", "de")),
        ("EN-us", "DE", ("runs/a", "en", "de")),
        ("de", "en", ("several", "deu_Latn", "eng_Latn")),
        ("eng_Latn", "zh", ("several", "eng_Latn", "zho_Hans")),
        ("en", "zh-TW", ("several", "eng_Latn", "zho_Hant")),
        ("zh-CN", "zt", ("several", "zho_Hans", "zho_Hant")),
        ("en", "fr", None),
        ("en", "en", None),
    ):
        route = pool.route(source, target)
        assert (None if route is None else (route.model.name, route.source, route.target)) == expected
    assert pool.route("en", "de", "several").model.name == "several"
    assert pool.directions()["zh-Hans"] == ["de", "en", "zh-Hant"]
    assert pool.directions()["en"] == ["de", "zh-Hans", "zh-Hant"]


def test_the_time_to_choose_a_model_grows_linearly_with_its_languages(pool_of, monkeypatch):
    codes = [f"{one}{two}{two}_Latn" for one in "abcdefghij" for two in "abcdefghij"]
    corpus = {**CORPUS, "source": codes[0], "target": codes[1]}
    spec = specs.load("tiny", {"languages": {**LANGUAGES, "codes": codes}, "corpus": corpus})
    pool, parsed = pool_of(), Mock(side_effect=LanguageCode.parse)
    pool.models["several"] = PooledModel("several", Path("x"), spec)
    monkeypatch.setattr(LanguageCode, "parse", parsed)
    assert (len(pool.sources("abb")), pool.route("abb", "jjj").model.name) == (99, "several")
    assert parsed.call_count < 1_000, "there are 9,900 pairs"
    bilingual = specs.load("tiny")
    others = [bilingual.model_copy(update={"name": f"other-{number}"}) for number in range(300)]
    pool.models |= {each.name: PooledModel(each.name, Path("x"), each) for each in others}
    assert pool.directions() is pool.directions(), "all language pairs stay in memory"
