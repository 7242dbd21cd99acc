"""Groundwatch SDK."""
