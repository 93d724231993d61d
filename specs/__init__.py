"""Specs: what a model is, as frozen data with places; the lowest room, which knows no torch."""

from specs.architecture import Architecture, Depths
from specs.catalogue import file_content, names
from specs.compilation import Compilation
from specs.corpus import Archive, Corpus, Files, Grammar, HeldOut, Part
from specs.decoding import Decoding
from specs.difference import difference
from specs.errors import ZooError, nearest
from specs.loader import load, parent, parse
from specs.override import Overrides
from specs.schema import schema
from specs.spec import Spec
from specs.sublayers import DecoderSubLayer, EncoderSubLayer, FeedForward, MemoryAttention, SelfAttention
from specs.training import Training
from specs.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Architecture",
    "Archive",
    "Compilation",
    "Corpus",
    "DecoderSubLayer",
    "Decoding",
    "Depths",
    "EncoderSubLayer",
    "FeedForward",
    "Files",
    "Grammar",
    "HeldOut",
    "MemoryAttention",
    "Overrides",
    "Part",
    "SelfAttention",
    "Spec",
    "Training",
    "Vocabulary",
    "ZooError",
    "difference",
    "file_content",
    "load",
    "names",
    "nearest",
    "parent",
    "parse",
    "schema",
]
