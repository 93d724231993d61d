"""Models of Hugging Face's transformers: folders with `config.json`, weights and a tokenizer."""
