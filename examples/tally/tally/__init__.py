"""Hours per project."""
