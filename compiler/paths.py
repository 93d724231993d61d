"""How far apart positions are in a graph (Table 1): its longest chain of steps, its shortest paths between positions.

Both follow from what each operation says it does over positions, and from the edges: no kind of sub-layer is named.
A path's length is the number of operations over positions on it. One that goes from position to position counts as
often as it is applied: n times between the first and the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from compiler.graph import Graph, Node
from compiler.operations.operation import Kind, Reach

Distances = Mapping[int, int]
"""By the number of operations over positions, the furthest position of which something is known after so many."""
WAYS = ("back", "ahead")


def steps(graph: Graph, n: int, layer: str | None = None) -> int:
    """The longest chain of operations over n positions, in the whole graph or in one layer of it.

    What does all positions at once is one step, and what goes from position to position is n.
    """
    chain: dict[str, int] = {}
    for node in graph.nodes:
        if layer is None or node.layer == layer:
            reach = node.operation.over_positions()
            own = 0 if reach is None else n if reach.in_turn else 1
            chain[node.name] = own + max((chain.get(value, 0) for value in node.inputs), default=0)
    return max(chain.values(), default=0)


def path(graph: Graph, start: str, end: str, n: int) -> int | None:
    """The longest of the shortest paths from a value to another between any two of n positions; None if some have none.

    Where nothing looks ahead (a decoder), a position has paths to those after it alone.
    """
    lengths = [_shortest(graph, start, end, n - 1, way) for way in WAYS if way == "back" or _looks_ahead(graph, start)]
    return None if None in lengths else max(filter(None, lengths), default=0)


def furthest(graph: Graph, start: str, end: str, n: int) -> int:
    """How far from each position of `end` all positions of `start` are known, of n; the nearer way of the two."""
    ways = WAYS if _looks_ahead(graph, start) else WAYS[:1]
    return min(_known(graph, start, n - 1, way).get(end, 0) for way in ways)


def _reads(node: Node) -> Iterator[tuple[str, Reach | None]]:
    """The numbers that an operation reads, each with how it reads other positions of them."""
    reach = node.operation.over_positions()
    if node.type.kind is Kind.FLOAT:
        for place, value in enumerate(node.inputs):
            yield value, reach if reach is not None and place in reach.across else None


def _looks_ahead(graph: Graph, start: str) -> bool:
    reached, found = {start}, False
    for node in graph.nodes:
        for value, reach in _reads(node):
            if value in reached:
                reached.add(node.name)
                found = found or (reach is not None and reach.ahead != 0)
    return found


def _known(graph: Graph, start: str, n: int, way: str) -> dict[str, int]:
    """Of each value, how far away all positions are known."""
    known = {start: 0}
    for node in graph.nodes:
        for value, reach in _reads(node):
            if value in known:
                known[node.name] = max(known.get(node.name, 0), _extended(known[value], reach, n, way))
    return known


def _extended(far: int, reach: Reach | None, n: int, way: str) -> int:
    """How far away positions are known after an operation, where they were so far before it.

    Of places that are apart, what lies between them has to be known: on both sides where it reads on both.
    """
    if reach is None:
        return far
    more, sides = getattr(reach, way), 1 if 0 in (reach.back, reach.ahead) else 2
    if more is None:
        return n
    return min(n, far + more) if far * sides + 1 >= reach.apart else far


def _left(graph: Graph, end: str, n: int, way: str) -> dict[str, int]:
    """Of each value that the end depends on, the most that paths from there on to the end can bridge."""
    left = {end: 0}
    for node in reversed(graph.nodes):
        for value, reach in _reads(node):
            if node.name in left:
                more = 0 if reach is None else getattr(reach, way)
                left[value] = max(left.get(value, 0), min(n, left[node.name] + (n if more is None else more)))
    return left


def _shortest(graph: Graph, start: str, end: str, n: int, way: str) -> int | None:
    """Operations over positions on the shortest path that bridges n positions."""
    left = _left(graph, end, n, way)
    known: dict[str, Distances] = {start: {0: 0}}
    for node in graph.nodes:
        if node.name in left and node.name not in known:
            least = n - left[node.name]  # what is nearer can never bridge them all
            after = (
                pair
                for value, reach in _reads(node)
                for before in known.get(value, {}).items()
                for pair in _passed(before, reach, n, way, least)
            )
            known[node.name] = _best(pair for pair in after if pair[1] >= least)
    return next((count for count, far in sorted(known.get(end, {}).items()) if far >= n), None)


def _passed(before: tuple[int, int], reach: Reach | None, n: int, way: str, least: int) -> Iterator[tuple[int, int]]:
    """What is known after an operation, at least so far away, and after how many: it counts if over positions."""
    count, far = before
    if reach is None:
        yield count, far
    elif reach.in_turn:
        for known in range(max(far, least), _extended(far, reach, n, way) + 1):
            yield count + 1 + known - far, known
    else:
        yield count + 1, _extended(far, reach, n, way)


def _best(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Without those than which another is no longer and reaches as far."""
    found: dict[int, int] = {}
    furthest = -1
    for count, far in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if far > furthest:
            found[count] = furthest = far
    return found
