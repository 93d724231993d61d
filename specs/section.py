"""Base class and common types of the sections of a spec."""

from typing import Annotated, NoReturn

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

# Every number has an upper bound beyond any real model, so that a typing error is found before memory is allocated.
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Epsilon = Annotated[float, Field(ge=1e-30, le=1)]
Steps = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Section(BaseModel):
    """Base class of the sections of a spec, which are frozen pydantic models.

    A missing field and an unknown field are errors. Text is never converted to a number. Fields have no defaults,
    because `base.yaml` sets them. Only options that `base.yaml` does not contain have defaults, and new fields, which
    files of older versions lack.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def reject(*fields: str, problem: str, hint: str) -> NoReturn:
    """Raise an error about fields that contradict each other. Validators of sections call this function.

    Args:
        fields: Names of the fields, such as `train[0].weight`, relative to the section that is validated. The error
            message locates the field that was set last.
        problem: What is wrong.
        hint: What to do.

    Raises:
        PydanticCustomError: Always.
    """
    raise PydanticCustomError("rule", "{problem}", {"problem": problem, "hint": hint, "fields": fields})
