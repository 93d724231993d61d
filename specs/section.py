"""What every section of a spec has in common: frozen, strict, complete."""

from typing import Annotated, NoReturn

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]
# Every number has a greatest value, too, beyond that of any model there is: it is written with its field.
Epsilon = Annotated[float, Field(ge=1e-30, le=1)]
Steps = Annotated[int, Field(ge=1, le=1_000_000_000)]
Minutes = Annotated[float, Field(gt=0, le=1e7)]


class Section(BaseModel):
    """Frozen data without defaults: an unwritten field is an error, and text is never taken for a number."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


def broken_rule(*keys: str, problem: str, hint: str) -> NoReturn:
    """Raise, inside a validator, a rule between the fields `keys` (dotted, from this section on)."""
    raise PydanticCustomError("rule", "{problem}", {"problem": problem, "hint": hint, "keys": keys})
