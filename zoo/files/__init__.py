"""Files: atomic writing, hashes, locks, downloads and archives."""
