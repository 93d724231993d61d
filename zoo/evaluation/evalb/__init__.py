"""EVALB: labelled brackets of parsers against a treebank."""
