"""Speech recognition: what recognisers' lists need beyond scores."""
