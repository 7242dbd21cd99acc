"""Estimates for all traffic with intervals, and what is made of them."""
