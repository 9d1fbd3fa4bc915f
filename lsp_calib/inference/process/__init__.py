"""The model process and its client: one for each user and model."""
