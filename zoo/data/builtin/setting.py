"""What a clause is drawn for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zoo.data.builtin.clause import Constituent
from zoo.data.builtin.conjugation import Tense
from zoo.data.builtin.features import Case, Kind
from zoo.data.builtin.hosts import Host
from zoo.data.builtin.nominals import Nominal, NounPhrase
from zoo.data.builtin.words import Marking

SUBJECT = Marking("", "", Case.NOMINATIVE)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of a clause beforehand.

    `past` is the time it has to be in, if any; `room` how many clauses may be embedded in one another here;
    `given` what takes a place of its frame (0 is the subject), and `front` what opens it, perhaps one of those;
    `antecedent` what `it` stands for.
    """

    kind: Kind = Kind.STATEMENT
    past: bool | None = None
    room: int = 0
    given: Mapping[int, Constituent] = field(default_factory=dict)
    front: Constituent | None = None
    antecedent: NounPhrase | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of it when its objects are drawn. `polarity` is `+`, `-` or `never`; `said` grows with them."""

    setting: Setting
    host: Host
    polarity: str
    subject: Nominal
    tense: Tense
    said: list[Nominal]
