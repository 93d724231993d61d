"""What a spec will take, before anything runs."""
