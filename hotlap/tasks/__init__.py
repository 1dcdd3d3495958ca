"""Tasks: what is seen, done and earned, and when it ends; and the ways to play them."""
