"""The judge: episodes, statistics, races, optimum and pictures; knows nothing of training."""
