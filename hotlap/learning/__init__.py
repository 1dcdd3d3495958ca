"""Learners: Stable-Baselines3's algorithms on data that stay where the simulator made them."""
