"""Windows of long recordings."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zoo.features import windows as module
from zoo.features.windows import Window, split_windows

RATE = 4000


def sound(*parts: tuple[str, float], seed: int = 0, pause: float = 0.0005) -> np.ndarray:
    """Noise of one level for speech (`a`), and of another for pauses (`.`)."""
    chance, scale = np.random.default_rng(seed), {"a": 0.1, ".": pause}
    made = [scale[kind] * chance.normal(size=round(seconds * RATE)) for kind, seconds in parts]
    return np.concatenate(made).astype(np.float32)


def blocks(samples: np.ndarray, size: int = 777) -> list[np.ndarray]:
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def spans(windows: Iterable[Window]) -> np.ndarray:
    return np.array([(window.start, window.end) for window in windows])


@pytest.mark.parametrize("size", [50, 777, 1_000_000])
def test_windows_are_cut_at_pauses_whatever_the_blocks(size: int) -> None:
    samples = sound((".", 3), ("a", 2), (".", 1), ("a", 0.5), (".", 0.3), ("a", 1), (".", 4), ("a", 1), (".", 2))
    windows = list(split_windows(blocks(samples, size), RATE, 10))
    # each with a margin of 0.2 s; the pause of 0.3 s is too short to end a window
    assert spans(windows) == pytest.approx(np.array([(2.8, 5.2), (5.8, 8.0), (11.6, 13.0)]), abs=0.03)
    for window in windows:
        start = round(window.start * RATE)
        assert np.array_equal(window.values, samples[start : start + len(window.values)])
        assert not window.overlaps


def test_long_speech_is_cut_at_a_gap_or_overlaps() -> None:
    samples = sound(("a", 6), (".", 0.3), ("a", 25), (".", 1))
    first, *others = split_windows(blocks(samples), RATE, 10)
    assert first.end == pytest.approx(6.15, abs=0.05)
    assert [window.overlaps for window in (first, *others)] == [False, False, *[True] * (len(others) - 1)]
    for one, two in pairwise(others):
        assert one.end - two.start == pytest.approx(2.0, abs=0.01)
    assert others[-1].end == pytest.approx(31.5, abs=0.05)


@pytest.mark.parametrize(("limit", "count"), [(10, 2), (14, 1)])
def test_a_short_pause_ends_a_window_from_a_third_of_the_maximum_length_on(limit: float, count: int) -> None:
    samples = sound(("a", 1), (".", 0.3), ("a", 2.7), (".", 0.3), ("a", 4), (".", 1))
    first, *others = split_windows(blocks(samples), RATE, limit)
    assert (1 + len(others), first.end) == (count, pytest.approx(4.15 if others else 8.5, abs=0.05))


@example([("a", 2.5), (".", 8.75), ("a", 1.0)], 1.0)
@given(st.lists(st.tuples(st.sampled_from("a."), st.floats(0.2, 8)), min_size=1, max_size=8), st.floats(1, 12))
def test_windows_cover_all_speech_and_are_never_too_long(parts: list[tuple[str, float]], limit: float) -> None:
    samples = sound(*parts)
    windows = list(split_windows(blocks(samples), RATE, limit))
    covered = np.zeros(len(samples), bool)
    for window in windows:
        assert len(window.values) <= round(limit * 100) * RATE // 100
        start = round(window.start * RATE)
        covered[start : start + len(window.values)] = True
    assert [window.start for window in windows] == sorted(window.start for window in windows)
    assert covered[np.abs(samples) > 0.05].all()


def test_the_work_for_a_window_does_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of a recording with a low sampling rate has many minutes."""
    read, levels = list[int](), module._levels
    monkeypatch.setattr(module, "_levels", lambda part, hop: read.append(len(part)) or levels(part, hop))
    loud, other = (sound(*[("a", 3.0), (".", 0.7)] * 40, seed=seed) for seed in (0, 1))
    samples = np.concatenate([0.02 * other, loud])
    whole, parts = (spans(split_windows(blocks(samples, size), RATE, 5)) for size in (len(samples), 777))
    assert np.array_equal(whole, parts)
    assert len(whole) >= 70
    assert max(read) <= 10 * RATE


@pytest.mark.parametrize("pause", [0.0005, 0.01])
@pytest.mark.parametrize("limit", [2, 30])
def test_background_noise_between_and_after_speech_is_skipped(pause: float, limit: int) -> None:
    samples = sound((".", 0.5), ("a", 1.5), (".", 25), ("a", 1.5), (".", 3), pause=pause)
    expected = np.array([(0.3, 2.2), (26.8, 28.7)])
    assert spans(split_windows(blocks(samples), RATE, limit)) == pytest.approx(expected, abs=0.03)


def test_silence_and_hum_have_no_pauses() -> None:
    for silence in ([], [np.zeros(90 * RATE, np.float32)]):
        assert not [*split_windows(silence, RATE, 30)]
    hum = np.sin(np.arange(5 * RATE), dtype=np.float32)
    (window,) = split_windows([hum], RATE, 30)
    assert np.array_equal(window.values, hum)
