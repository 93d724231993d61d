"""The section `compilation`: how the graph becomes a program."""

from typing import Annotated, Literal

from pydantic import Field

from specs.section import Section, Size

Name = Annotated[str, Field(max_length=100)]


class Compilation(Section):
    """What the compiler may do. None of it changes what the model is (no section of the paper)."""

    backend: Literal["auto", "eager", "inductor", "native", "aot", "onnx", "tensorrt", "ctranslate2"] = Field(
        description="What runs the program (no letter); auto takes the best that is present for device and purpose, as "
        "does training where a backend only translates; a choice."
    )
    precision: Literal["float32", "bfloat16", "int8"] = Field(
        description="Numbers of weights and products when it translates (no letter); all but float32 are approximate; "
        "a choice."
    )
    without: Annotated[tuple[Name, ...], Field(strict=False)] = Field(
        max_length=100,
        description="Passes switched off, by name, as `zoo plan SPEC --passes` lists them; a list of names.",
    )
    vocabulary_multiple: Size = Field(
        le=4_096, description="The pre-softmax projection is padded to a multiple of this (no letter); tokens."
    )
