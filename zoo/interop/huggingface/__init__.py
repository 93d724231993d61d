"""Families of transformers' models, and models on the Hugging Face Hub."""

from __future__ import annotations

from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.marian import HuggingFaceMarian
from zoo.interop.huggingface.multilingual import Multilingual
from zoo.interop.huggingface.t5 import T5

FAMILIES: tuple[Family, ...] = (HuggingFaceMarian(), Multilingual(), T5())
"""Families of transformers' models. To add a family, write a module and add its class to this list."""
