import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.size import BATCH, SOURCE, TARGET, Size

sizes = st.recursive(
    st.one_of(st.integers(-5, 5).map(Size.of), st.sampled_from([BATCH, SOURCE, TARGET])),
    lambda s: st.one_of(
        st.tuples(s, s).map(lambda t: t[0] + t[1]),
        st.tuples(s, s).map(lambda t: t[0] * t[1]),
        st.tuples(s, s).map(lambda t: t[0] - t[1]),
    ),
    max_leaves=6,
)
values = st.fixed_dictionaries({name: st.integers(0, 50) for name in ("batch", "source", "target")})


@given(sizes, sizes, values)
def test_arithmetic_on_sizes_is_arithmetic_on_their_values(a: Size, b: Size, at: dict[str, int]) -> None:
    assert (a + b)(**at) == a(**at) + b(**at)
    assert (a * b)(**at) == a(**at) * b(**at)
    assert (a - b)(**at) == a(**at) - b(**at)


@given(sizes, sizes)
def test_equal_polynomials_are_equal(a: Size, b: Size) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert a - a == Size()
    assert (a + b) * (a - b) == a * a - b * b


def test_it_reads_like_a_polynomial() -> None:
    assert str(2 * SOURCE * SOURCE * BATCH + 1000 * TARGET - 3) == "2·batch·source² + 1,000·target - 3"
    assert str(Size()) == "0"


@given(st.integers(-5, 5))
def test_only_what_depends_on_no_symbol_is_a_constant(number: int) -> None:
    assert (Size.of(number) + BATCH - BATCH).constant == number
    with pytest.raises(ValueError, match="is not a constant"):
        _ = (number + BATCH).constant
