"""What a model is: its card, its file, where its bytes come from, what it needs."""
