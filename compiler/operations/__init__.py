"""The operations of the graph, a file for each kind. To add one: its class, which says all that is known of it."""
