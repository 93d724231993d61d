"""Adjectives as they are used."""

from dataclasses import dataclass

from zoo.data.builtin.features import Words
from zoo.data.builtin.words import Adjective
from zoo.text.trees.tree import Tree, leaf, node


@dataclass(frozen=True, slots=True)
class Quality:
    """An adjective as it is used, with an adverb of degree before it or in the comparative."""

    adjective: Adjective
    comparative: bool = False
    very: bool = False

    def english(self) -> Tree:
        """JJ or JJR, or an ADJP over two words."""
        adjective = self.adjective
        if self.very:
            return node("ADJP", leaf("RB", "very"), leaf("JJ", adjective.english))
        if not self.comparative:
            return leaf("JJ", adjective.english)
        if adjective.comparative == "more":
            return node("ADJP", leaf("RBR", "more"), leaf("JJ", adjective.english))
        return leaf("JJR", adjective.comparative)

    def german(self, attributive: bool) -> Words:
        """The stem that an ending is put to, or the whole word of a predicate."""
        form = self.adjective.stem if attributive else self.adjective.german
        word = self.adjective.german_comparative if self.comparative else form
        return ("sehr", word) if self.very else (word,)
