"""Stores shared by several hosts: addresses, publishing, and the working copy on this host."""
