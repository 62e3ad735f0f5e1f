"""Open a store as DuckDB views, which are built from the queries in sql/."""
