"""Import of models from other toolkits, and export to other toolkits. Each foreign format has one package."""
