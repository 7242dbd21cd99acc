"""The groundwatch command, all-in-one serve, and the demo."""
