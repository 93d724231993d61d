"""Declarations of models as frozen, validated data that is read from YAML. This package never imports torch.

The modules are imported when one of their names is first used, because pydantic takes longer to import than a short
command runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specs.architecture import Architecture, Depths
    from specs.catalogue import names
    from specs.corpus import Archive, Corpus, Files, Grammar, HeldOut, Part, Table, Treebank
    from specs.decoding import Decoding
    from specs.errors import ZooError, nearest
    from specs.inspection import comments, describe_head_sizes, difference, field_names, schema
    from specs.languages import Languages
    from specs.loader import Overrides, load, parent, parse, where_written
    from specs.parts import Features, Learned, Norm, Positions, Relative, Rotary, Sinusoidal
    from specs.spec import METADATA_FIELDS, Compilation, Spec
    from specs.sublayers import (
        AlignedMemory,
        BottleneckConvolution,
        Convolution,
        CrossAttention,
        DecoderSubLayer,
        EncoderSubLayer,
        FeedForward,
        Lstm,
        MixtureOfExperts,
        RestrictedAttention,
        SelfAttention,
        SeparableConvolution,
        Ssru,
        Sublayer,
    )
    from specs.task import LanguageModelling, Parsing, Task, Translation
    from specs.training import Training
    from specs.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

_NAMES = {
    "architecture": ("Architecture", "Depths"),
    "catalogue": ("names",),
    "corpus": ("Archive", "Corpus", "Files", "Grammar", "HeldOut", "Part", "Table", "Treebank"),
    "decoding": ("Decoding",),
    "errors": ("ZooError", "nearest"),
    "inspection": ("comments", "describe_head_sizes", "difference", "field_names", "schema"),
    "languages": ("Languages",),
    "loader": ("Overrides", "load", "parent", "parse", "where_written"),
    "parts": ("Features", "Learned", "Norm", "Positions", "Relative", "Rotary", "Sinusoidal"),
    "spec": ("METADATA_FIELDS", "Compilation", "Spec"),
    "sublayers": (
        "AlignedMemory",
        "BottleneckConvolution",
        "Convolution",
        "CrossAttention",
        "DecoderSubLayer",
        "EncoderSubLayer",
        "FeedForward",
        "Lstm",
        "MixtureOfExperts",
        "RestrictedAttention",
        "SelfAttention",
        "SeparableConvolution",
        "Ssru",
        "Sublayer",
    ),
    "task": ("LanguageModelling", "Parsing", "Task", "Translation"),
    "training": ("Training",),
    "vocabulary": ("BOS", "EOS", "PAD", "UNK", "Vocabulary"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "BOS",
    "EOS",
    "METADATA_FIELDS",
    "PAD",
    "UNK",
    "AlignedMemory",
    "Architecture",
    "Archive",
    "BottleneckConvolution",
    "Compilation",
    "Convolution",
    "Corpus",
    "CrossAttention",
    "DecoderSubLayer",
    "Decoding",
    "Depths",
    "EncoderSubLayer",
    "Features",
    "FeedForward",
    "Files",
    "Grammar",
    "HeldOut",
    "LanguageModelling",
    "Languages",
    "Learned",
    "Lstm",
    "MixtureOfExperts",
    "Norm",
    "Overrides",
    "Parsing",
    "Part",
    "Positions",
    "Relative",
    "RestrictedAttention",
    "Rotary",
    "SelfAttention",
    "SeparableConvolution",
    "Sinusoidal",
    "Spec",
    "Ssru",
    "Sublayer",
    "Table",
    "Task",
    "Training",
    "Translation",
    "Treebank",
    "Vocabulary",
    "ZooError",
    "comments",
    "describe_head_sizes",
    "difference",
    "field_names",
    "load",
    "names",
    "nearest",
    "parent",
    "parse",
    "schema",
    "where_written",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        globals()[name] = getattr(import_module(f"specs.{_MODULES[name]}"), name)
        return globals()[name]
    if name in _NAMES:
        return import_module(f"specs.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
