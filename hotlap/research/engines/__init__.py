"""Where trials run: here, under a supervisor that nothing survives, or on a Ray cluster."""
