"""Original simulators behind the interface of our own tasks."""
