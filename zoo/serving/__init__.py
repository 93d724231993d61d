"""Translation server: a pool of models behind zoo's own HTTP API and those of LibreTranslate and DeepL."""
