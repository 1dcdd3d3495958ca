"""Pages and pictures, made from files alone."""
