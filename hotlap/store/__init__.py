"""What is kept on disk: run folders, checkpoints and model bundles, whole whatever happens."""
