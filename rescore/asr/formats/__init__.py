"""Formats of speech toolkits and services, lattices and whole recordings."""
