"""What a user runs: the main job, a comparison of models, a measurement of speed, the check against a golden file."""
