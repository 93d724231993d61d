"""Memory, processors and backends of this machine, and measurements of their speed."""
