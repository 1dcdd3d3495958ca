"""Runs and studies: what to try, how it went, who is champion."""
