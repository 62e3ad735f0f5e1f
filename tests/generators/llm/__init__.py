"""Tests of extraction and rewriting by a model."""
