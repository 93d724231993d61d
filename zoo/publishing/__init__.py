"""The shelf: what is published, how it is proved, and what there is."""
