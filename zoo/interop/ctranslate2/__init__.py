"""Models of CTranslate2: folders with `model.bin`, `config.json` and vocabularies."""
