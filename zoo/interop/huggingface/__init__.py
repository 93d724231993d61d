"""Families of transformers' models, and models on the Hugging Face Hub."""
