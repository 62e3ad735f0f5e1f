"""Grade finished trials again from their stored data. New results are added beside the old ones."""
