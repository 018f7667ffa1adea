"""Doubles and comparisons that several tests share."""
