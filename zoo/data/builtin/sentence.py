"""Sentences: one main clause, or two that are joined."""

from dataclasses import dataclass

from zoo.data.builtin.clause import Clause
from zoo.data.builtin.features import Kind
from zoo.data.builtin.order import punctuated
from zoo.text.trees.tree import Tree, capitalised, detokenised, leaf, node


@dataclass(frozen=True, slots=True)
class Sentence:
    """A clause, and perhaps another with the conjunction (English, German) that joins it."""

    first: Clause
    conjunction: tuple[str, str] = ("", "")
    second: Clause | None = None

    @property
    def mark(self) -> str:
        """The final punctuation mark."""
        return "?" if self.first.kind is Kind.QUESTION else "."

    def english(self, plain: bool = False) -> Tree:
        """The English tree; a plain one has neither capital nor final mark."""
        tree = self.first.english()
        if self.second:
            tree = node("S", tree, leaf(",", ","), leaf("CC", self.conjunction[0]), self.second.english())
        return tree if plain else node(tree.label, *tree.children, leaf(".", self.mark)).capitalised()

    def german(self, plain: bool = False) -> str:
        """The German text; a plain one has neither capital nor final mark."""
        words = self.first.german()
        if self.second:
            words = (*words, ",", self.conjunction[1], *self.second.german())
        text = detokenised(punctuated(words))
        return text if plain else capitalised(text) + self.mark
