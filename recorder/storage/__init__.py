"""The contents of a store: journals, segments, blobs and the manifest, with their formats and locks."""
