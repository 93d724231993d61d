"""How many layers there are, and what is in one: as the paper has it, or as the spec says."""

import pytest
from pydantic import ValidationError

import specs
from specs import CrossAttention, Depths, FeedForward, SelfAttention
from specs.loader import load, parse

ATTENTION, MEMORY = SelfAttention(kind="self_attention"), CrossAttention(kind="cross_attention")
NETWORK = FeedForward(kind="feed_forward")


def test_a_layer_is_figure_1s() -> None:
    a = load("base").architecture
    assert a.encoder == (ATTENTION, NETWORK)
    assert a.decoder == (ATTENTION, MEMORY, NETWORK)


def test_sub_layers_come_in_any_order_and_number() -> None:
    a = load("base", ["architecture.encoder=[{kind: feed_forward}]"]).architecture
    assert a.encoder == (NETWORK,)
    assert len(a.decoder) == 3
    assert load("base", {"architecture.decoder": (MEMORY, ATTENTION)}).architecture.decoder == (MEMORY, ATTENTION)


def test_one_number_is_both_depths_and_stays_one_number() -> None:
    spec = load("base")
    assert (spec.architecture.N, spec.architecture.depths) == (6, Depths(encoder=6, decoder=6))
    assert "\n  N: 6\n" in spec.yaml()
    assert spec.model_dump(mode="json")["architecture"]["N"] == 6


def test_depths_may_differ() -> None:
    spec = load("base", ["architecture.N={encoder: 12, decoder: 2}"])
    assert spec.architecture.N == spec.architecture.depths == Depths(encoder=12, decoder=2)
    assert "\n  N:\n    encoder: 12\n    decoder: 2\n" in spec.yaml()
    assert parse(spec.yaml(), "spec.yaml") == spec
    assert hash(parse(spec.yaml(), "spec.yaml")) == hash(spec)
    assert load("base", {"architecture.N": Depths(encoder=12, decoder=2)}) == spec
    assert load("base", {"architecture": {"N": {"encoder": 12, "decoder": 2}}}) == spec
    assert str(spec.architecture.N) == "12 and 2"
    with pytest.raises(ValidationError, match="frozen"):
        spec.architecture.depths.encoder = 3  # type: ignore[misc]


def test_depths_are_overlaid_as_other_mappings() -> None:
    two = ["architecture.N={encoder: 12, decoder: 2}"]
    assert load("base", [*two, "architecture.N.decoder=3"]).architecture.depths.decoder == 3
    assert load("base", [*two, "architecture.N=4"]).architecture.N == 4


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ("{encoder: 12, decoder: 2}", "6", {"architecture.N": (6, {"encoder": 12, "decoder": 2})}),
        ("6", "{encoder: 12, decoder: 2}", {"architecture.N": ({"encoder": 12, "decoder": 2}, 6)}),
        ("{encoder: 12, decoder: 2}", "{encoder: 12, decoder: 6}", {"architecture.N.decoder": (6, 2)}),
        ("{encoder: 12, decoder: 2}", "{encoder: 12, decoder: 2}", {}),
    ],
)
def test_difference_of_depths(here: str, there: str, found: dict[str, object]) -> None:
    spec, other = load("base", [f"architecture.N={here}"]), load("base", [f"architecture.N={there}"])
    assert specs.difference(spec, other) == found
    # The other, with the difference over it, is the spec.
    changes = {key: new for key, (_, new) in specs.difference(spec, other).items()}
    written = {"architecture.N": other.model_dump()["architecture"]["N"]}
    assert load("base", {**written, **changes}) == spec


def test_a_key_that_is_a_kinds_name_is_still_a_key() -> None:
    """Pydantic names the kind of a part in its locations, and a person may have written that word."""
    with pytest.raises(specs.ZooError) as error:
        load("tiny", ["corpus.train=[{grammar: 1, Grammar: 2}]"])
    assert error.value.problem == "`corpus.train[0].Grammar` is not a field of this spec"
    with pytest.raises(specs.ZooError) as error:
        load("tiny", ["architecture.N={encoder: 1, decoder: 1, two: 2}"])
    assert error.value.problem == "`architecture.N.two` is not a field of this spec"
    with pytest.raises(specs.ZooError) as error:
        load("tiny", ["architecture.encoder=[{kind: feed_forward, feed_forward: 1}]"])
    assert error.value.problem == "`architecture.encoder[0].feed_forward` is not a field of this spec"
