"""What a user runs: the main job."""
