"""A headless stand-in for the DonkeyCar simulator."""
