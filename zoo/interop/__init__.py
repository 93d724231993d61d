"""Import of models from other toolkits, and export to other toolkits. Each toolkit has one package or module."""
