"""Folders of CTranslate2."""
