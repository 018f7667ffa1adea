"""Tests of understudy."""
