"""Hostile documents are read and written, or refused, in seconds and with little memory."""

from __future__ import annotations

import multiprocessing
from contextlib import suppress
from pathlib import PurePath

import pytest

from specs import ZooError
from tests.hostile.documents import FULL_SIZE, PARTS, document_names, make_document
from zoo.documents.document import read_texts, write_documents
from zoo.system.memory import memory_limit

NAMES = document_names()
ALLOWED_BYTES = 600_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_document_is_kept_or_refused(name: str) -> None:
    check(name, FULL_SIZE // 500)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_large_hostile_document_is_kept_or_refused_within_its_memory(name: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(check_in_little_memory, (name,))


def check_in_little_memory(name: str) -> None:
    with memory_limit(ALLOWED_BYTES + 100_000_000):  # the documents are made within it, too
        check(name, FULL_SIZE)


def check(name: str, size: int) -> None:
    file, content = make_document(name, size)
    with suppress(ZooError):
        (segments,) = read_texts([(content, file, None)])
        texts, alignments = [text for text, _ in segments], [[] for _ in segments]
        (same,) = write_documents([(content, file, None)], texts, alignments)
        (other,) = write_documents([(content, file, None)], [text[::-1] for text in texts], alignments)
        assert bool(other) == bool(content)
        assert same == content or PurePath(file).suffix in PARTS
