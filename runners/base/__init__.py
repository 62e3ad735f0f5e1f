"""Shared building blocks of the runners."""
