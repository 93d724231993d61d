"""Marian models of Hugging Face's transformers: folders with `config.json`, weights and SentencePiece models."""
