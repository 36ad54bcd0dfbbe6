"""Roles of those who call. Each includes the ones before it."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    READ = 1  # look at anything
    WRITE = 2  # make, change and drop databases, tables and views, and commit rows
    PIPELINE = 3  # what collectors, nurseries, merge workers and janitors do
    ADMIN = 4  # tokens, and everything else
