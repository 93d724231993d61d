"""Nominals that open a clause: those that ask, and those that refer back."""

from dataclasses import dataclass

from zoo.data.builtin import declension
from zoo.data.builtin.features import Agreement, Case, Words
from zoo.data.builtin.nominals import Nominal
from zoo.text.trees.tree import Tree, leaf, node


@dataclass(frozen=True, slots=True)
class Interrogative(Nominal):
    """`who` or `what`."""

    nominative: str
    objective: str
    translations: tuple[str, str, str]
    kind: str

    @property
    def sort(self) -> str:
        return self.kind

    def english(self, case: Case) -> Tree:
        return node("WHNP", leaf("WP", self.nominative if case is Case.NOMINATIVE else self.objective))

    def german(self, case: Case) -> Words:
        return (self.translations[case],)


@dataclass(frozen=True, slots=True)
class Relative(Nominal):
    """A relative pronoun: gender and number are its antecedent's, the case is its own."""

    antecedent: Nominal
    word: str

    @property
    def sort(self) -> str:
        return self.antecedent.sort

    @property
    def agreement(self) -> Agreement:
        return self.antecedent.agreement

    def english(self, case: Case) -> Tree:
        return node("WHNP", leaf("WP" if self.word.startswith("who") else "WDT", self.word))

    def german(self, case: Case) -> Words:
        return (declension.relative_pronoun(case, self.agreement.column),)


WHO = Interrogative("who", "whom", ("wer", "wen", "wem"), "person")
WHAT = Interrogative("what", "what", ("was", "was", "was"), "thing")
