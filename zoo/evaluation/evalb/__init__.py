"""EVALB (Sekine and Collins 1997): labelled brackets of parsers against a treebank."""
