"""Files that are whole or not there, what is known of their content, and how they come from elsewhere."""
