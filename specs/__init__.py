"""Specs: declarations of models as frozen, validated data, read from YAML. This package never imports torch.

The modules are imported when one of their names is first used, because importing pydantic takes longer than running a
short command.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specs.architecture import Architecture as Architecture
    from specs.architecture import Depths as Depths
    from specs.catalogue import names as names
    from specs.corpus import Archive as Archive
    from specs.corpus import Corpus as Corpus
    from specs.corpus import Digits as Digits
    from specs.corpus import Files as Files
    from specs.corpus import Grammar as Grammar
    from specs.corpus import HeldOut as HeldOut
    from specs.corpus import Pairs as Pairs
    from specs.corpus import Part as Part
    from specs.corpus import Synthetic as Synthetic
    from specs.corpus import Table as Table
    from specs.corpus import Treebank as Treebank
    from specs.errors import ZooError as ZooError
    from specs.errors import install_hint as install_hint
    from specs.errors import nearest as nearest
    from specs.errors import suggest as suggest
    from specs.inspection import comments as comments
    from specs.inspection import difference as difference
    from specs.inspection import field_names as field_names
    from specs.inspection import schema as schema
    from specs.loader import load as load
    from specs.loader import parent as parent
    from specs.loader import parse as parse
    from specs.loader import where_written as where_written
    from specs.parts import Alibi as Alibi
    from specs.parts import Audio as Audio
    from specs.parts import Features as Features
    from specs.parts import FeatureSource as FeatureSource
    from specs.parts import Learned as Learned
    from specs.parts import Norm as Norm
    from specs.parts import Relative as Relative
    from specs.parts import Rotary as Rotary
    from specs.parts import Sinusoidal as Sinusoidal
    from specs.parts import Sinusoidal2d as Sinusoidal2d
    from specs.sections import BOS as BOS
    from specs.sections import EOS as EOS
    from specs.sections import PAD as PAD
    from specs.sections import UNK as UNK
    from specs.sections import Decoding as Decoding
    from specs.sections import Languages as Languages
    from specs.sections import Parsing as Parsing
    from specs.sections import Recognition as Recognition
    from specs.sections import Task as Task
    from specs.sections import Training as Training
    from specs.sections import Translation as Translation
    from specs.sections import Vocabulary as Vocabulary
    from specs.spec import METADATA_FIELDS as METADATA_FIELDS
    from specs.spec import Spec as Spec
    from specs.sublayers import AlignedMemory as AlignedMemory
    from specs.sublayers import BottleneckConvolution as BottleneckConvolution
    from specs.sublayers import Convolution as Convolution
    from specs.sublayers import CrossAttention as CrossAttention
    from specs.sublayers import DecoderSubLayer as DecoderSubLayer
    from specs.sublayers import EncoderSubLayer as EncoderSubLayer
    from specs.sublayers import FeedForward as FeedForward
    from specs.sublayers import Lstm as Lstm
    from specs.sublayers import MixtureOfExperts as MixtureOfExperts
    from specs.sublayers import RestrictedAttention as RestrictedAttention
    from specs.sublayers import SelfAttention as SelfAttention
    from specs.sublayers import SeparableConvolution as SeparableConvolution
    from specs.sublayers import Ssru as Ssru
    from specs.sublayers import Sublayer as Sublayer

_NAMES = {
    "architecture": "Architecture Depths",
    "catalogue": "names",
    "corpus": "Archive Corpus Digits Files Grammar HeldOut Pairs Part Synthetic Table Treebank",
    "errors": "ZooError install_hint nearest suggest",
    "inspection": "comments difference field_names schema",
    "loader": "load parent parse where_written",
    "parts": "Alibi Audio Features FeatureSource Learned Norm Relative Rotary Sinusoidal Sinusoidal2d",
    "sections": "BOS EOS PAD UNK Decoding Languages Parsing Recognition Task Training Translation Vocabulary",
    "spec": "METADATA_FIELDS Spec",
    "sublayers": "AlignedMemory BottleneckConvolution Convolution CrossAttention DecoderSubLayer EncoderSubLayer "
    "FeedForward Lstm MixtureOfExperts RestrictedAttention SelfAttention SeparableConvolution Ssru Sublayer",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        globals()[name] = getattr(import_module(f"specs.{_MODULES[name]}"), name)
        return globals()[name]
    if name in _NAMES:
        return import_module(f"specs.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
