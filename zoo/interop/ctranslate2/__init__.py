"""CTranslate2 models: folders with `model.bin`, `config.json` and vocabularies."""
