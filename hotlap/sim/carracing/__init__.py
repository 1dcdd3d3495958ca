"""The world of Gymnasium's CarRacing as tensors: tracks of tiles, a picture from above."""
