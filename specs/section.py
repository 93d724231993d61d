"""Base class and common types of spec sections."""

import ast
from contextlib import suppress
from functools import cache
from inspect import getsource
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, NoReturn, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

# Every number has an upper bound beyond any real model, so that a typo is found before memory is allocated.
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Epsilon = Annotated[float, Field(ge=1e-30, le=1)]
Steps = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Section(BaseModel):
    """Base class for the sections of a spec, which are frozen pydantic models.

    Missing and unknown fields are errors. Text is never converted to a number. Most fields have no defaults,
    because `base.yaml` sets them. The exceptions are options that `base.yaml` does not contain, and new fields, which
    older spec files do not contain. The docstring below a field is its description in the documentation and in the
    JSON Schema.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def _check(self) -> None:
        """Call `reject` if fields contradict each other. This runs after pydantic has validated each field."""

    @model_validator(mode="after")
    def _run_check(self) -> Self:
        self._check()
        return self

    @classmethod
    def describe(cls, field: str) -> str:
        """Return the description of a field: the docstring below it, or pydantic's `description`."""
        return cls.model_fields[field].description or _docstrings(cls).get(field, "")

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        written = handler(schema)
        for field, properties in handler.resolve_ref_schema(written)["properties"].items():
            properties.setdefault("description", cls.describe(field))
        return written


class Sparse(Section):
    """Base class for sections that omit fields with default values when they are serialised."""

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {name: value for name, value in serialize(self).items() if getattr(self, name) != fields[name].default}


@cache
def _docstrings(section: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a section. Python does not store them, so parse the source code."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__[: section.__mro__.index(Section)]):
        with suppress(OSError, TypeError):  # a class that was typed at a prompt has no source
            (definition,) = ast.parse(dedent(getsource(base))).body
            assert isinstance(definition, ast.ClassDef)
            for field, text in pairwise(definition.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


def reject(fields: str | tuple[str, ...], problem: str, hint: str) -> NoReturn:
    """Raise an error about a field, or about fields that contradict each other.

    Field validators and overrides of `Section._check` call this function.

    Args:
        fields: Names of the fields, such as `train[0].weight`, relative to the section that is validated. The error
            message gives the location of the field that was set last.
        problem: What is wrong.
        hint: What to do.

    Raises:
        PydanticCustomError: Always.
    """
    names = (fields,) if isinstance(fields, str) else fields
    raise PydanticCustomError("rule", "{problem}", {"problem": problem, "hint": hint, "fields": names})
