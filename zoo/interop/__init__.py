"""Import of models from other toolkits, and export to them. There is one package per foreign format."""
