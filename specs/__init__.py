"""Specs: what a model is, as frozen data with places; the lowest room, which knows no torch."""

from specs.architecture import Architecture, Depths
from specs.catalogue import names
from specs.comments import comments
from specs.compilation import Compilation
from specs.corpus import Archive, Corpus, Files, Grammar, HeldOut, Part, Treebank
from specs.decoding import Decoding
from specs.difference import difference
from specs.errors import ZooError, nearest
from specs.loader import load, parent, parse
from specs.override import Overrides
from specs.schema import schema
from specs.spec import ENTITLING, Spec
from specs.sublayers import (
    Convolution,
    CrossAttention,
    DecoderSubLayer,
    EncoderSubLayer,
    FeedForward,
    Lstm,
    RestrictedAttention,
    SelfAttention,
    SeparableConvolution,
    Ssru,
)
from specs.task import Parsing, Task, Translation
from specs.training import Training
from specs.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

__all__ = [
    "BOS",
    "ENTITLING",
    "EOS",
    "PAD",
    "UNK",
    "Architecture",
    "Archive",
    "Compilation",
    "Convolution",
    "Corpus",
    "CrossAttention",
    "DecoderSubLayer",
    "Decoding",
    "Depths",
    "EncoderSubLayer",
    "FeedForward",
    "Files",
    "Grammar",
    "HeldOut",
    "Lstm",
    "Overrides",
    "Parsing",
    "Part",
    "RestrictedAttention",
    "SelfAttention",
    "SeparableConvolution",
    "Spec",
    "Ssru",
    "Task",
    "Training",
    "Translation",
    "Treebank",
    "Vocabulary",
    "ZooError",
    "comments",
    "difference",
    "load",
    "names",
    "nearest",
    "parent",
    "parse",
    "schema",
]
