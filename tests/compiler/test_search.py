"""A search in slots finds what the Python search finds, whatever sentences share the slots and move between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from compiler import TRANSLATE, EmittedProgram, Purpose, graphs
from compiler.assemble import initial_weights
from compiler.backends import BuildRequest
from compiler.backends.eager import Functions, program
from compiler.capture import Recorder
from compiler.emission import emit
from compiler.instruction import Unsupported
from compiler.search import Searcher
from compiler.search_graphs import search_graphs
from specs import EOS
from tests.compiler.kernels_in_pytorch import kernels_in_pytorch
from tests.compiler.test_conformance import ARCHITECTURES
from tests.examples import changed, small
from tests.refusals import refused
from zoo.generation.batch import Batch, ProgramBatch, start_batch
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.hypotheses import SearchHistory
from zoo.generation.translation import SearchInput

VOCABULARY = 101
RULES: tuple[Any, ...] = ("admissible", "full", "shrinking")
REFUSED = {"additive": "additive scores", "t5": "biases", "alibi": "biases", "restricted": "kernels do not support"}

Searching = Callable[..., tuple[EmittedProgram, Searcher]]


def sources(count: int, prefix: tuple[int, ...] = (), seed: int = 3) -> list[SearchInput]:
    draw, found = random.Random(seed), []
    for index in range(count):
        text = (*(draw.randrange(4, VOCABULARY) for _ in range(draw.randint(0, 20))), EOS)
        found.append(SearchInput(index, {"source": text}, draw.randint(len(prefix) + 1, 24), prefix=prefix))
    return found


@pytest.fixture
def searching() -> Iterator[Searching]:
    """A function that returns a program with weights that give no ties, and its search in slots."""

    def run_once_before(function: Callable[[], object]) -> Callable[[], object]:
        """Recorder that runs a function once, as a GPU does before it records a graph."""
        function()
        return function

    def make(record: Recorder = run_once_before, **architecture: object) -> tuple[EmittedProgram, Searcher]:
        spec, generator = small(**architecture), torch.Generator().manual_seed(4)
        drawn = initial_weights(spec, graphs(spec)).items()
        weights = {name: 2 * each + 0.1 * torch.randn(each.shape, generator=generator) for name, each in drawn}
        made = search_graphs(spec, TRANSLATE, "float32")
        search = partial(Searcher, graphs=made, functions=Functions(emit(made.values())), record=record)
        request = BuildRequest(spec, graphs(spec), weights)
        built = program(request, Functions(emit(request.graphs.values())), make_searcher=search)
        assert isinstance(built.searcher, Searcher)
        return built, built.searcher

    with kernels_in_pytorch():
        yield make


def in_python(program: EmittedProgram, search: BeamSearch, given: Sequence[SearchInput]) -> list[SearchHistory]:
    histories = [search.new_history(source) for source in given]
    finish(Batch(program, histories, "cpu"))
    return histories


def finish(batch: Batch | ProgramBatch[Any]) -> None:
    while batch.histories:
        batch.step()


def in_slots(searcher: Searcher, search: BeamSearch, groups: Sequence[Sequence[SearchInput]]) -> list[SearchHistory]:
    """Search in slots. Each group joins the groups before it after a step, so that sentences move to larger pools."""
    histories = [[search.new_history(source) for source in group] for group in groups]
    batch: ProgramBatch[Any] = ProgramBatch(searcher, histories[0])
    for group in histories[1:]:
        batch.step()
        batch = batch.join(ProgramBatch(searcher, group))
    finish(batch)
    return [history for group in histories for history in group]


def assert_same(expected: Sequence[SearchHistory], found: Sequence[SearchHistory]) -> None:
    for one, other in zip(expected, found, strict=True):
        assert other.stop_reason == one.stop_reason
        for wanted, hypothesis in zip(one.hypotheses(), other.hypotheses(), strict=True):
            assert hypothesis.tokens == wanted.tokens
            assert hypothesis.score == pytest.approx(wanted.score, rel=1e-3)
            assert hypothesis.log_probability == pytest.approx(wanted.log_probability, rel=1e-3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beam", [1, 3, 12])
def test_slots_find_what_the_search_in_python_finds(searching: Searching, rule: Any, beam: int) -> None:
    program, searcher = searching()
    constraint = SuppressedTokens((11, 12), VOCABULARY, None, 4) if beam == 3 else None
    search = BeamSearch(beam, 0.6, min(2, beam), constraint, stopping_rule=rule)
    given = sources(9, prefix=(7, 9) if beam == 12 else ())
    expected = in_python(program, search, given)
    assert_same(expected, in_slots(searcher, search, [given[:2], given[2:5], given[5:]]))
    assert_same(expected[4:5], in_slots(searcher, search, [given[4:5]]))


@pytest.mark.parametrize("name", ["pre", "unscaled", "gelu", "student"])
def test_slots_hold_every_kind_of_decoder_that_has_kernels(searching: Searching, name: str) -> None:
    program, searcher = searching(**ARCHITECTURES[name])
    search, given = BeamSearch(4, 0.6), sources(6)
    assert_same(in_python(program, search, given), in_slots(searcher, search, [given[:1], given[1:]]))


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_decoders_without_kernels_are_refused_with_the_reason(name: str, reason: str) -> None:
    assert type(refused(reason, search_graphs, small(**ARCHITECTURES[name]), TRANSLATE, "float32")) is Unsupported


def test_cross_attention_outside_the_encoder_is_refused_with_the_pass_to_enable() -> None:
    refused("`hoist_memory`", search_graphs, changed(small(), disabled_passes=("hoist_memory",)), TRANSLATE, "float32")


def test_sentences_of_different_beams_lengths_and_rules_share_slots(searching: Searching) -> None:
    program, searcher = searching()
    options: list[Any] = [(1, "full"), (5, "admissible"), (2, "shrinking"), (1, "full")]
    given, searches = sources(4), [BeamSearch(size, 1.0, stopping_rule=rule) for size, rule in options]
    histories = [search.new_history(source) for search, source in zip(searches, given, strict=True)]
    finish(ProgramBatch(searcher, histories))
    for search, source, history in zip(searches, given, histories, strict=True):
        assert_same(in_python(program, search, [source]), [history])


def test_cancelled_sentences_leave_and_their_slots_are_used_again(searching: Searching) -> None:
    program, searcher = searching()
    search, given = BeamSearch(3, 0.6), sources(8)
    histories = [search.new_history(source) for source in given]
    batch: ProgramBatch[Any] = ProgramBatch(searcher, histories[:4])
    for number in (0, 2):
        histories[number].stop_reason = "cancelled"
    finish(batch.join(ProgramBatch(searcher, histories[4:])))
    kept = [1, 3, 4, 5, 6, 7]
    assert_same(in_python(program, search, [given[n] for n in kept]), [histories[n] for n in kept])


def test_the_slots_of_an_abandoned_search_are_used_again(searching: Searching) -> None:
    recorded: list[Callable[[], object]] = []
    program, searcher = searching(lambda function: recorded.append(function) or function)  # type: ignore[func-returns-value]
    search, given = BeamSearch(3, 0.6), sources(1)
    abandoned: ProgramBatch[Any] = ProgramBatch(searcher, [search.new_history(given[0])])
    abandoned.step()
    abandoned.abandon()
    steps = len(recorded)
    assert_same(in_python(program, search, given), in_slots(searcher, search, [given]))
    assert len(recorded) == steps


def test_unused_slots_are_kept_up_to_a_total_size(searching: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    _, searcher = searching()
    monkeypatch.setattr("compiler.search.FREE_BYTES", 0)
    for size in (2, 3, 6):
        in_slots(searcher, BeamSearch(size, 0.6), [sources(2)])
    assert len(searcher._free) == 1


def test_hypotheses_may_reach_the_last_learned_position(searching: Searching) -> None:
    """Slots of sentences that have ended are computed further until the others end, too."""
    program, searcher = searching(positions={"kind": "learned", "rows": 65})
    search = BeamSearch(2, 0.6, constraint=SuppressedTokens((), VOCABULARY, None, 64))
    given = [replace(source, max_length=64) for source in sources(7)]
    assert_same(in_python(program, search, given), in_slots(searcher, search, [given[:3], given[3:]]))


def test_a_search_that_has_no_kernel_runs_in_python(searching: Searching) -> None:
    program, _ = searching()
    for beam, kind in ((16, ProgramBatch), (17, Batch)):
        search = BeamSearch(beam, 0.6)
        assert isinstance(start_batch(program, [search.new_history(sources(1)[0])], "cpu"), kind)


def test_log_probabilities_that_are_not_numbers_end_the_search(searching: Searching) -> None:
    program, searcher = searching()
    with torch.no_grad():
        program.get_parameter("embedding")[5] = torch.nan
    (history,) = in_slots(searcher, BeamSearch(2, 0.6), [sources(1)])
    with pytest.raises(Exception, match="not finite"):
        history.hypotheses()


def test_a_layer_of_a_decoder_step_has_few_kernels() -> None:
    """Six products, of which three contain the norm before them, and two attentions. Views are no kernels."""
    steps = [search_graphs(small(N=layers), TRANSLATE, "bfloat16")[Purpose.DECODE_STEP] for layers in (1, 2)]
    one, two = (sum(not node.operation.view for node in step.nodes) for step in steps)
    assert two - one <= 8
