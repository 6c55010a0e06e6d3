"""One part of each kind for rescore, in a package of its own."""
