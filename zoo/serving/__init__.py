"""Translation server: a pool of models behind zoo's own HTTP API and the APIs of LibreTranslate, DeepL and OpenAI."""
