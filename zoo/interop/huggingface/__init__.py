"""Marian's models as Hugging Face's transformers has them: OPUS-MT's."""
